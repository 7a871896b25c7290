#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace mxtape {

/// Hands the transpose of a matrix [rows, cols] to `sink` in order, some of its rows at a time.
template <class Sink>
void transposed(std::span<const float> matrix, std::int64_t rows, std::int64_t cols, const Sink& sink) {
  constexpr std::int64_t band = 64;  // columns at once: a line of the cache is used 16 times
  std::vector<float> result;
  for (std::int64_t first = 0; first < cols; first += band) {
    const std::int64_t count = std::min(band, cols - first);
    result.resize(std::size_t(count * rows));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < count; ++c)
        result[std::size_t(c * rows + r)] = matrix[std::size_t(r * cols + first + c)];
    sink(std::span<const float>(result));
  }
}

}  // namespace mxtape
