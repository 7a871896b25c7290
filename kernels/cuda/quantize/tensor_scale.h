#pragma once
#include <cuda_runtime.h>

#include "core/tensor.h"
#include "formats/block.h"

namespace mxtape::cuda {

/// Parts of a tensor whose largest magnitudes are found first: cut by size only.
inline constexpr std::int64_t amax_part = 1 << 14;
constexpr std::int64_t amax_parts(std::int64_t count) { return (count + amax_part - 1) / amax_part; }

/// parts[i] = bits of the largest magnitude of part i of x, infinities and NaN on top; i32 [amax_parts()].
void largest_of_parts(cudaStream_t stream, const Tensor& parts, const Tensor& x);

/// encode[1] = tensor_encode_scale() of the largest part; multiplier[1] = what a GEMM with that operand is
/// multiplied by.
void tensor_scale(cudaStream_t stream, const Tensor& encode, const Tensor& multiplier, const Tensor& parts,
                  const BlockRule& rule);

/// What a tensor without elements is multiplied by; without a tensor scale, what any is.
float multiplier_of_zeros(const Quantizer& q);

}  // namespace mxtape::cuda
