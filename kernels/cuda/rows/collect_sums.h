#pragma once
#include <cuda_runtime.h>

#include "kernels/rounded.h"

namespace mxtape::cuda {

/// first, second [C] = or += the sums of partial [blocks, 2, C] over the blocks, in an order that depends on
/// their number alone. second may be empty.
void collect_sums(cudaStream_t, const Tensor& first, const Tensor& second, const Tensor& partial, Write);

}  // namespace mxtape::cuda
