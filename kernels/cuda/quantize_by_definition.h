#pragma once
#include <cuda_runtime.h>

#include "core/tensor.h"
#include "formats/quantize_blocks.h"
#include "kernels/cuda/keys.h"

namespace mxtape::cuda {

/// One copy y of x [rows, cols] by any quantizer: block scales first, then elements.
struct DefinitionTask {
  std::int64_t rows, cols;
  ScaleKind scale;
  bool asymmetric, four_over_six, stochastic;
  BlockRule rule;
  BlockExtent extent;   ///< of a block
  const float* encode;  ///< [1] of floating scales, else null
  BlockScale* scales;   ///< one per block, in row-major order; null for plain casts
  ClockedKey draws;
};
DefinitionTask definition_task(const Quantizer& q, Axis axis, std::int64_t rows, std::int64_t cols);
std::int64_t block_count(const DefinitionTask& task);

void quantize_by_definition(cudaStream_t stream, const Tensor& y, const Tensor& x,
                            const DefinitionTask& task);

}  // namespace mxtape::cuda
