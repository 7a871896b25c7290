#pragma once
#include "kernels/backend.h"

namespace mxtape {

/// What a device does with the rows of one head, b H + h, for the composition below.
class AttentionHead {
 public:
  virtual ~AttentionHead() = default;
  /// Part `part` of x [B, T, parts, H, D] as f32 [T, D].
  virtual Tensor take(const Tensor& x, std::int64_t part, std::int64_t parts) = 0;
  /// The other way.
  virtual void put(const Tensor& y, const Tensor& x, std::int64_t part, std::int64_t parts) = 0;
  /// s [T, T] = softmax(s / sqrt(D)) over the keys that a query sees, 0 for the others; lse of the head, too.
  virtual void softmax(const Tensor& s) = 0;
  /// p = e^(p / sqrt(D) - lse), of products Q K^T; dp = p (dp - delta) / sqrt(D), delta of a query being dO .
  /// O.
  virtual void softmax_backward(const Tensor& p, const Tensor& dp) = 0;
};

// Attention of one head word for word as AttentionQuant says: a quantizer of its own for each operand, whole
// [T, T] matrices, each operand rounded from f32 as a tensor of its own. Blocks along keys or queries mix
// tokens: a V may be rounded by a scale that a later token of its block sets.
void attention_composed(Backend&, AttentionHead&, const call::Attention&, std::int64_t head);
void attention_composed_backward(Backend&, AttentionHead&, const call::AttentionBackward&, std::int64_t head);

}  // namespace mxtape
