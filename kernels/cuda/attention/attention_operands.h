#pragma once
#include <initializer_list>
#include <vector>

#include "kernels/attention/slots.h"
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/quantize/quantize_tile.h"

namespace mxtape::cuda {

/// Operands of all heads at once, as matrices [B, H, T, D] in bf16 (K and V [B, G, T, D]) whose blocks are
/// those of AttentionQuant. For shapes that blocks_take().
struct HeadOperands {
  Backend& backend;
  cudaStream_t stream;
  const AttentionShape& shape;
  const AttentionQuant& quant;
  const ClockedKey& draws;

  /// A part of x, rounded for one slot or for two, one along each axis.
  std::vector<Tensor> rounded(const Tensor& x, const AttentionPart&,
                              std::initializer_list<AttentionField>) const;
  /// The stream of P or dS, elements [B, H, T, T].
  ClockedKey score_draws(AttentionField field) const {
    return stream_of(field, shape.heads, shape.time * shape.keys);
  }

 private:
  Tensor taken(const Tensor& x, const AttentionPart&) const;
  ClockedKey stream_of(AttentionField, std::int64_t heads, std::int64_t elements_of_head) const;
  TileTask task_of(const Tensor& x, const AttentionPart&, AttentionField) const;
};

/// True if every operand can be rounded so, because blocks end with the heads, T and D being multiples of 32,
/// and P and dS as score_rounding() does.
bool blocks_take(const AttentionShape&, const AttentionQuant&);

}  // namespace mxtape::cuda
