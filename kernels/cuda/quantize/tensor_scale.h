#pragma once
#include <cuda_runtime.h>

#include "formats/block.h"
#include "kernels/backend.h"

namespace mxtape::cuda {

/// Bits of the largest magnitude of each part of x, infinities and NaN on top; i32. `backend` gives memory.
Tensor largest_of_parts(Backend& backend, cudaStream_t stream, const Tensor& x);

/// tensor_encode_scale() of the largest part, f32 [1]; multiplier[1], unless empty, = what a GEMM with that
/// operand is multiplied by.
Tensor tensor_scale(Backend& backend, cudaStream_t stream, const Tensor& multiplier, const Tensor& parts,
                    const BlockRule& rule);

/// What a tensor without elements is multiplied by; without a tensor scale, what any is.
float multiplier_of_zeros(const Quantizer& q);

}  // namespace mxtape::cuda
