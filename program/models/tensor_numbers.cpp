#include "program/models/tensor_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <limits>

namespace mxtape {

TensorDifference difference_of(std::span<const float> a, std::span<const float> b) {
  TensorDifference difference;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i])) continue;
    if (difference.count++ == 0) {
      difference.first = std::int64_t(i), difference.a = a[i];
      difference.b = b[i];
    }
    const double apart = std::abs(double(a[i]) - double(b[i]));
    if (!std::isfinite(apart)) difference.largest = std::numeric_limits<double>::quiet_NaN();
    if (apart > difference.largest) difference.largest = apart;  // never, once it is NaN
  }
  return difference;
}

std::string indices_text(std::span<const std::int64_t> indices) {
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

std::vector<std::int64_t> indices_of(std::int64_t element, std::span<const std::int64_t> dims) {
  std::vector<std::int64_t> indices(dims.size());
  for (std::size_t axis = dims.size(); axis--;) {
    indices[axis] = element % dims[axis];
    element /= dims[axis];
  }
  return indices;
}

}  // namespace mxtape
