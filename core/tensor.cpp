#include "core/tensor.h"

#include <fmt/ranges.h>

namespace mxtape {

std::string Shape::text() const {
  return fmt::format("[{}]", fmt::join(dims.begin(), dims.begin() + rank, ", "));
}

}  // namespace mxtape
