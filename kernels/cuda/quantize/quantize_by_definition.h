#pragma once
#include <cuda_runtime.h>

#include "formats/quantize_blocks.h"
#include "kernels/backend.h"
#include "kernels/cuda/keys.h"

namespace mxtape::cuda {

/// One copy y of x [rows, cols] by any quantizer: block scales first, then elements.
struct DefinitionTask {
  std::int64_t rows, cols;
  BlockRule rule;
  BlockExtent extent;             ///< of a block
  BlockExtent group;              ///< of blocks with a common outer scale
  const float* encode = nullptr;  ///< [1] of tensor scales, else null
  BlockScale* scales = nullptr;   ///< one per block, in row-major order; null for plain casts
  ClockedKey draws{};
  const float* averages = nullptr;  ///< with `ema`; null: those of x are itself
};
/// The block of element i in row-major order; in kernels.
MXT_HD std::int64_t block_of(const DefinitionTask& t, std::int64_t i) {
  const std::int64_t across = (t.cols + t.extent.cols - 1) / t.extent.cols;
  return i / t.cols / t.extent.rows * across + i % t.cols / t.extent.cols;
}
DefinitionTask definition_task(const Quantizer& q, Axis axis, std::int64_t rows, std::int64_t cols);
std::int64_t block_count(const DefinitionTask& task);

/// Gives the task its scales, from x, in memory of `backend`; nothing for plain casts.
Tensor scale_blocks(Backend& backend, cudaStream_t stream, const Tensor& x, DefinitionTask& task);
/// By the task's scales.
void quantize_by_definition(cudaStream_t stream, const Tensor& y, const Tensor& x,
                            const DefinitionTask& task);

}  // namespace mxtape::cuda
