#pragma once
#include <algorithm>

#include "kernels/backend.h"

namespace mxtape::cpu {

/// Rows of one range: about 16384 numbers.
inline std::int64_t rows_at_a_time(std::int64_t cols) { return std::max<std::int64_t>(1, (1 << 14) / cols); }

/// Two sums [C] over `rows` rows of `cols` numbers. Each range of rows sums on its own, at most 64 of them;
/// the ranges are then added in their order. So the bits depend on the shape, and not on threads.
class RowSums {
 public:
  RowSums(Backend& backend, std::int64_t rows, std::int64_t cols, std::int64_t C)
      : C_(C),
        grain_(std::max(rows_at_a_time(cols), (rows + 63) / 64)),
        ranges_((rows + grain_ - 1) / grain_),
        sums_(backend.empty({ranges_, 2, C})) {}

  std::int64_t grain() const { return grain_; }  ///< rows of a range
  /// Two sums [C], zeros: of the range that begins at row `begin`.
  float* of_range(std::int64_t begin) const {
    float* const partial = sums_.data() + begin / grain_ * 2 * C_;
    std::fill_n(partial, 2 * C_, 0.0f);
    return partial;
  }
  /// total [C] of sum `which`, 0 or 1.
  void collect(const Tensor& total, std::int64_t which, Write write) const {
    if (write == Write::overwrite) std::fill_n(total.data(), C_, 0.0f);
    for (std::int64_t range = 0; range < ranges_; ++range) {
      const float* const partial = sums_.data() + (range * 2 + which) * C_;
      for (std::int64_t c = 0; c < C_; ++c) total.data()[c] += partial[c];
    }
  }

 private:
  std::int64_t C_, grain_, ranges_;
  Tensor sums_;
};

}  // namespace mxtape::cpu
