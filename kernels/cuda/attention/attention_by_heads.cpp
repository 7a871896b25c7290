#include <cmath>

#include "kernels/attention/composed.h"
#include "kernels/cuda/attention/attention_paths.h"

namespace mxtape::cuda {
namespace {

/// Rows of scores in the arithmetic of the CPU's vector loops. `delta` is empty in the forward pass.
template <class Call>
class Head final : public AttentionHead {
 public:
  Head(const Call& call, std::int64_t index, const Tensor& delta = {})
      : call_(call), index_(index), delta_(delta), scale_(1 / std::sqrt(float(call.shape.width))) {}

  Tensor take(const Tensor& x, std::int64_t part, std::int64_t parts) override {
    return take_head(call_.backend, call_.stream, x, call_.shape, index_, part, parts);
  }
  void put(const Tensor& y, const Tensor& x, std::int64_t part, std::int64_t parts) override {
    put_head(call_.stream, y, x, call_.shape, index_, part, parts);
  }
  void softmax(const Tensor& s) override { causal_softmax(call_.stream, s, lse(), scale_); }
  void softmax_backward(const Tensor& p, const Tensor& dp) override {
    const float* const delta = delta_.data() + index_ * call_.shape.time;
    causal_softmax_backward(call_.stream, p, dp, lse(), delta, scale_);
  }

 private:
  float* lse() const { return call_.lse.data() + index_ * call_.shape.time; }

  const Call& call_;
  std::int64_t index_;
  Tensor delta_;
  float scale_;
};

}  // namespace

void attention_by_heads(const AttentionForward& tensors, const call::Attention& call) {
  for (std::int64_t index = 0; index < call.shape.batch * call.shape.heads; ++index) {
    Head head(tensors, index);
    attention_composed(tensors.backend, head, call, index);
  }
}

void attention_by_heads_backward(const AttentionBackward& tensors, const call::AttentionBackward& call) {
  const Tensor delta = attention_delta(tensors);
  for (std::int64_t index = 0; index < call.shape.batch * call.shape.heads; ++index) {
    Head head(tensors, index, delta);
    attention_composed_backward(tensors.backend, head, call, index);
  }
}

}  // namespace mxtape::cuda
