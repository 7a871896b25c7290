#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/attention/composed.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/loops/attention_loops.h"

namespace mxtape::cpu {
namespace {

AttentionTile whole(std::int64_t T) { return {0, T, T, T}; }

/// Forward for call::Attention; backward, which needs delta, for call::AttentionBackward.
template <class Call>
class Head final : public AttentionHead {
 public:
  Head(Backend& memory, const Call& call, std::int64_t index)
      : memory_(memory), call_(call), s_(call.shape), index_(index), scale_(1 / std::sqrt(float(s_.width))) {}

  Tensor take(const Tensor& x, std::int64_t part, std::int64_t parts) override {
    const Tensor y = memory_.empty({s_.time, s_.width});
    for (std::int64_t t = 0; t < s_.time; ++t)
      std::copy_n(row(x, t, part, parts), s_.width, y.data() + t * s_.width);
    return y;
  }
  void put(const Tensor& y, const Tensor& x, std::int64_t part, std::int64_t parts) override {
    for (std::int64_t t = 0; t < s_.time; ++t)
      std::copy_n(x.data() + t * s_.width, s_.width, row(y, t, part, parts));
  }
  void softmax(const Tensor& s) override {
    attention_loops().softmax(s.data(), nullptr, lse(), whole(s_.time), scale_);
  }
  void softmax_backward([[maybe_unused]] const Tensor& p, [[maybe_unused]] const Tensor& dp) override {
    if constexpr (requires { call_.d_o; }) {
      const auto& loops = attention_loops();
      const Tensor delta = memory_.empty({s_.time});
      loops.row_dots(delta.data(), row(call_.d_o, 0, 0, 1), s_.stride(1), row(call_.o, 0, 0, 1), s_.stride(1),
                     s_.time, s_.width);
      loops.softmax_again(p.data(), nullptr, lse(), whole(s_.time), scale_);
      loops.softmax_backward(dp.data(), nullptr, p.data(), delta.data(), whole(s_.time), scale_);
    }
  }

 private:
  float* row(const Tensor& x, std::int64_t t, std::int64_t part, std::int64_t parts) const {
    return x.data() + s_.offset(index_, part, parts) + t * s_.stride(parts);
  }
  float* lse() const { return call_.lse.data() + index_ * s_.time; }

  Backend& memory_;
  const Call& call_;
  const AttentionShape& s_;
  std::int64_t index_;
  float scale_;
};

}  // namespace

void attention_by_heads(Backend& memory, const call::Attention& call) {
  parallel_for(call.shape.batch * call.shape.heads, 1, [&](std::int64_t index, std::int64_t) {
    Head head(memory, call, index);
    attention_composed(memory, head, call, index);
  });
}

void attention_by_heads_backward(Backend& memory, const call::AttentionBackward& call) {
  parallel_for(call.shape.batch * call.shape.heads, 1, [&](std::int64_t index, std::int64_t) {
    Head head(memory, call, index);
    attention_composed_backward(memory, head, call, index);
  });
}

}  // namespace mxtape::cpu
