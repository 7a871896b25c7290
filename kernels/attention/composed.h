#pragma once
#include "kernels/backend.h"
#include "kernels/calls_rows.h"

namespace mxtape {

/// What a device does with the rows of one head for the composition below.
class AttentionRows {
 public:
  virtual ~AttentionRows() = default;
  /// A head's part of x as f32 [rows, D].
  virtual Tensor take(const Tensor& x, const AttentionPart&, std::int64_t head) = 0;
  /// The other way.
  virtual void put(const Tensor& y, const Tensor& x, const AttentionPart&, std::int64_t head) = 0;
  /// s [T, keys] = softmax(s / sqrt(D)) over the keys that a query sees, 0 for the others; lse of the query
  /// head, too.
  virtual void softmax(const Tensor& s, std::int64_t head) = 0;
  /// p = e^(p / sqrt(D) - lse), of products Q K^T; dp = p (dp - delta) / sqrt(D), delta of a query being dO .
  /// O. 0 for keys that a query does not see.
  virtual void softmax_backward(const Tensor& p, const Tensor& dp, std::int64_t head) = 0;
  /// s = 0 for keys that a query does not see.
  virtual void hide(const Tensor& s, std::int64_t head) = 0;
};

// All query heads of one key head (b G + g) word for word as AttentionQuant says: a quantizer of its own for
// each operand, whole [T, keys] matrices, each operand rounded from f32 as a tensor of its own. dK and dV are
// sums over the query heads, in f32, in their order. Blocks along keys or queries mix tokens: a V may be
// rounded by a scale that a later token of its block sets.
void attention_composed(Backend&, AttentionRows&, const call::Attention&, std::int64_t key_head);
void attention_composed_backward(Backend&, AttentionRows&, const call::AttentionBackward&,
                                 std::int64_t key_head);

}  // namespace mxtape
