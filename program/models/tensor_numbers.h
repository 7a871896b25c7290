#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mxtape {

/// Where two tensors of one shape differ, by bits: -0 is not 0, and a NaN may equal itself.
struct TensorDifference {
  std::int64_t count = 0, first = -1;
  float a = 0, b = 0;  ///< at the first
  double largest = 0;  ///< |a - b|; NaN where one of the two is not finite
};
TensorDifference difference_of(std::span<const float> a, std::span<const float> b);

/// "[3, 32]"; of a row-major tensor with these extents the indices of an element, or the extents themselves.
std::string indices_text(std::span<const std::int64_t> indices);
std::vector<std::int64_t> indices_of(std::int64_t element, std::span<const std::int64_t> dims);

}  // namespace mxtape
