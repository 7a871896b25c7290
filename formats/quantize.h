#pragma once
#include <span>

#include "core/random.h"
#include "formats/quantizer.h"

namespace mxtape {

/// Which way a GEMM sums over x, seen as [rows, cols], and blocks therefore run.
enum class Axis : std::uint8_t {
  row,     ///< along a row: the last axis
  column,  ///< down a column
};

/// The definition: y[rows, cols] = the values of x rounded by q. Scalar, one block at a time, every option;
/// the fast kernels are tested to give the same bits. Random draws come from `key` by the element's index in
/// x (16 bits each; 32 when q.sr_bits > 16); with `ema` x is its own average. Returns the number that a GEMM
/// with y as operand must be multiplied by (1 unless q.has_multiplier()).
float quantize_reference(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                         const Quantizer& q, const DrawKey& key);

/// The same with q.sr_bits random bits given, in the low end of draws[i], or with `ema` those of averages.
float quantize_with_draws(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                          const Quantizer& q, std::span<const std::uint32_t> draws);

}  // namespace mxtape
