#pragma once
#include <cstdint>
#include <vector>

#include "formats/quantizer.h"

namespace mxtape {

/// A weight that was rounded column by column, the error of each carried on to those that follow.
struct Diffused {
  std::vector<float> values;  ///< [N, K]: numbers of the format
  /// Values that change if they are rounded by the format again, which derives the scales from them: by more
  /// than 2^-20 of themselves. 0 where a block's scale follows from its largest magnitude.
  std::int64_t moved = 0;
};

/// Error diffusion of w [N, K] by q, blocks along K (GPTQ, Frantar et al. 2023, arXiv:2210.17323, algorithm
/// 1; Lybrand & Saab 2021, arXiv:2010.11480, for the idea). For column j of each row, with U of
/// error_paths():
///   q_j = round(w_j),  e = (w_j - q_j) / U[j, j],  w_i -= e * U[j, i] for i > j
/// A block's scale is decided when its first column is reached, from what its weights are by then, and stays.
/// Elements are rounded to nearest even. If rounding the block again would derive another scale, it is done
/// once more with its extremes rounded as they were when the scale was decided; if that does not help either,
/// the block is cast directly. The largest weight of the tensor keeps its value where that is what the
/// tensor's scale comes from. With the identity for U the result is that of a direct cast.
/// The same bits at any number of threads. Throws Error(usage) for scales of groups of blocks (outer=axis),
/// Error(diverged) if a weight is not finite.
Diffused diffuse(const float* w, std::int64_t n, std::int64_t k, const Quantizer& q,
                 const std::vector<double>& paths);

/// What a direct cast gives: quantize_reference() to nearest even, multiplier and all.
std::vector<float> cast_directly(const float* w, std::int64_t n, std::int64_t k, const Quantizer& q);

/// Bytes that diffusing a weight [N, K] takes besides the weight, its Gram matrix included.
std::int64_t diffusion_bytes(std::int64_t n, std::int64_t k);

}  // namespace mxtape
