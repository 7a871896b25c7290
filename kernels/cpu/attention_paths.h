#pragma once
#include "kernels/backend.h"

namespace mxtape::cpu {

/// The tensors of Backend::attention and attention_backward; `memory` gives scratch.
struct AttentionForward {
  Backend& memory;
  AttentionShape shape;
  Tensor o, lse, qkv;
};
struct AttentionBackward {
  Backend& memory;
  AttentionShape shape;
  Tensor dqkv, d_o, qkv, o, lse;
};

// By tiles of queries against the keys that they see: half the work of the whole square, and scratch of one
// tile. All operands are f32 (unrounded), or all are rounded to bf16, to nearest even.
void attention_by_tiles(const AttentionForward&, DType operands);
void attention_by_tiles_backward(const AttentionBackward&, DType operands);

// With a quantizer of its own for each operand, on whole [T, T] matrices: blocks of P and dS run along keys
// for one GEMM and along queries for the other. Each operand is one tensor to its quantizer, so the tensor
// scale of a floating block scale (NVFP4) is one per head. Blocks along keys or queries mix tokens: a V may be
// rounded by a scale that a later token of its block sets.
void attention_by_heads(const AttentionForward&, const AttentionQuant&, const DrawKey&);
void attention_by_heads_backward(const AttentionBackward&, const AttentionQuant&, const DrawKey&);

}  // namespace mxtape::cpu
