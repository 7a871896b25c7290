#pragma once
#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/calls_rows.h"
#include "kernels/cuda/keys.h"

namespace mxtape::cuda {

/// A call of attention and where it runs; `backend` gives scratch, and quantizes and multiplies where heads
/// are taken one by one.
template <class Call>
struct OnDevice : Call {
  Backend& backend;
  cudaStream_t stream;
  const Tensor& keys() const { return this->shape.own_keys ? this->kv : this->qkv; }
  const Tensor& key_gradients() const { return this->shape.own_keys ? this->dkv : this->dqkv; }
};
using AttentionForward = OnDevice<call::Attention>;
using AttentionBackward = OnDevice<call::AttentionBackward>;

/// Causal attention of whole sequences, with widths that the tensor cores' tiles hold and whose rows start at
/// multiples of 16 bytes.
inline bool flash_takes(const AttentionShape& s) {
  return s.is_causal_self() && s.width % 8 == 0 && s.width <= 128;
}

// On tensor cores, scores in registers (Dao 2023, FlashAttention-2, arXiv:2307.08691): operands in bf16, sums
// in f32. P, before it is divided by its row's sum, and in the backward pass P and dS are rounded to bf16, to
// nearest even: each is off by at most 2^-8 of itself. f32 tensors are rounded to bf16 first.
void attention_flash(const AttentionForward&);
void attention_flash(const AttentionBackward&);

// For any width, mask and keys, but without dropout, in f32 arithmetic; `operands` bf16 rounds what is
// multiplied as the way above does.
void attention_general(const AttentionForward&, DType operands);
void attention_general(const AttentionBackward&, DType operands);

// Operands in blocks, on tensor cores as above: Q, K, V and dO are rounded beforehand, for each GEMM along
// the axis that it sums over, P and dS in registers. P = e^(scale S - lse) is normalised before it is
// rounded, in both passes. For what blocks_take() (attention_operands.h).
void attention_blocks(const AttentionForward&, const AttentionQuant&, const ClockedKey&);
void attention_blocks(const AttentionBackward&, const AttentionQuant&, const ClockedKey&);

// One head after the other, composed (kernels/attention/composed.h): for everything else.
void attention_by_heads(const AttentionForward&);
void attention_by_heads(const AttentionBackward&);

/// Which keys the queries of a head see. `lengths` as in call::Attention, null: all.
struct SeenKeys {
  AttentionShape shape;
  const std::int32_t* lengths = nullptr;
  /// Of a query head's sequence.
  MXT_HD std::int64_t length(std::int64_t head) const {
    if (!lengths) return shape.keys;
    const std::int64_t length = lengths[head / shape.heads];
    return length < 1 ? 1 : length < shape.keys ? length : shape.keys;
  }
};
template <class Call>
SeenKeys seen_keys(const Call& call) {
  return {call.shape, call.lengths.template data<std::int32_t>()};
}

// Rows of one head's scores [T, keys], in the arithmetic of the CPU's vector loops, so that what is quantized
// next has the same bits.

/// s = softmax(scale s) over the keys that a query sees, 0 for the others; lse [T] = log of its sums.
void masked_softmax(cudaStream_t, const Tensor& s, float* lse, const SeenKeys&, std::int64_t head,
                    float scale);
/// p = e^(scale p - lse), of the products Q K^T; dp = scale p (dp - delta).
void masked_softmax_backward(cudaStream_t, const Tensor& p, const Tensor& dp, const float* lse,
                             const float* delta, const SeenKeys&, std::int64_t head, float scale);
/// s = 0 for keys that a query does not see.
void hide_scores(cudaStream_t, const Tensor& s, const SeenKeys&, std::int64_t head);
/// A head's part of x as f32 [rows, D]; and back, rounded if y is bf16.
Tensor take_head(Backend&, cudaStream_t, const Tensor& x, const AttentionPart&, std::int64_t head);
void put_head(cudaStream_t, const Tensor& y, const Tensor& x, const AttentionPart&, std::int64_t head);

/// delta[b, h, t], f32 [B, H, T] = the dot product of rows (b, t, h) of a and b, both [B, T, H D]: dP . P of
/// a query, which is dO . O. The CPU's order of additions.
Tensor attention_delta(const AttentionBackward&);

}  // namespace mxtape::cuda
