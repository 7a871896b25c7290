#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "formats/quantize.h"

namespace mxtape {

/// How a quantizer treats one tensor. Errors are of the values after the multiplier is applied, summed in
/// double over the elements that are finite before and after.
struct ErrorStatistics {
  std::int64_t count = 0;      ///< elements
  std::int64_t nonfinite = 0;  ///< NaN or infinite before or after: in no sum below
  double mean_square = 0;      ///< of x: the power that errors are compared with
  double mse = 0;              ///< mean (y - x)^2
  double mae = 0;              ///< mean |y - x|
  double max_abs_error = 0;
  double clipped = 0;       ///< share of elements with |v| / S above the format's largest number
  double flushed = 0;       ///< share of elements that are not zero and become zero
  double crest_factor = 0;  ///< max |x| / rms(x)
  double cosine = 0;        ///< <x, y> / (|x| |y|)
  double bias = 0;          ///< <x, y> / <x, x> - 1: what is lost of x along itself, negative
  /// Share of blocks whose largest magnitude exceeds the smallest that is not zero 2, 10, 100 times.
  std::array<double, 3> spread_over{};
  std::map<int, std::int64_t> scales;  ///< blocks by floor(log2 scale)
  double bits_per_element = 0;
  std::int64_t blocks = 0;  ///< 0 of a plain cast
  std::int64_t bytes = 0;   ///< of codes, scales and offsets, outer scales included

  double relative_rmse() const;  ///< sqrt(mse / mean_square)
  double nmse() const { return mean_square > 0 ? mse / mean_square : 0; }
  double sqnr_db() const;  ///< -10 log10 nmse; infinite if nothing was lost
};
inline constexpr std::array spread_limits{2.0, 10.0, 100.0};

/// Stored bits of a full block, its scale and offset included; nothing where there are no blocks, or where
/// their size is the tensor's.
std::optional<double> bits_per_block(const Quantizer&);
/// Share of the memory that is saved against elements of `bits` bits: 32 of f32, 16 of bf16. Below 0 if more
/// is needed.
double memory_saved(const Quantizer&, double bits);

/// `tensor_amax`: of the tensor that x is a part of, for scales of a whole tensor; else x's own.
ErrorStatistics error_statistics(const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                                 const Quantizer& q, const DrawKey& key,
                                 std::optional<float> tensor_amax = {});

}  // namespace mxtape
