#include <cmath>

#include "kernels/attention/composed.h"
#include "kernels/calls_rows.h"
#include "kernels/cuda/attention/attention_paths.h"

namespace mxtape::cuda {
namespace {

/// Rows of scores in the arithmetic of the CPU's vector loops. `delta` is empty in the forward pass.
template <class Call>
class Rows final : public AttentionRows {
 public:
  explicit Rows(const Call& call, const Tensor& delta = {})
      : call_(call), seen_(seen_keys(call)), delta_(delta), scale_(1 / std::sqrt(float(call.shape.width))) {}

  Tensor take(const Tensor& x, const AttentionPart& part, std::int64_t head) override {
    return take_head(call_.backend, call_.stream, x, part, head);
  }
  void put(const Tensor& y, const Tensor& x, const AttentionPart& part, std::int64_t head) override {
    put_head(call_.stream, y, x, part, head);
  }
  void softmax(const Tensor& s, std::int64_t head) override {
    masked_softmax(call_.stream, s, lse(head), seen_, head, scale_);
  }
  void softmax_backward(const Tensor& p, const Tensor& dp, std::int64_t head) override {
    const float* const delta = delta_.data() + head * call_.shape.time;
    masked_softmax_backward(call_.stream, p, dp, lse(head), delta, seen_, head, scale_);
  }
  void hide(const Tensor& s, std::int64_t head) override { hide_scores(call_.stream, s, seen_, head); }

 private:
  float* lse(std::int64_t head) const { return call_.lse.data() + head * call_.shape.time; }

  const Call& call_;
  SeenKeys seen_;
  Tensor delta_;
  float scale_;
};

}  // namespace

void attention_by_heads(const AttentionForward& call) {
  Rows rows(call);
  for (std::int64_t head = 0; head < call.shape.batch * call.shape.kv_heads; ++head)
    attention_composed(call.backend, rows, call, head);
}

void attention_by_heads(const AttentionBackward& call) {
  Rows rows(call, attention_delta(call));
  for (std::int64_t head = 0; head < call.shape.batch * call.shape.kv_heads; ++head)
    attention_composed_backward(call.backend, rows, call, head);
}

}  // namespace mxtape::cuda
