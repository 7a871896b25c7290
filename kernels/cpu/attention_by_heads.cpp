#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/attention/composed.h"
#include "kernels/attention/slots.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/attention_loops.h"

namespace mxtape::cpu {
namespace {

/// Forward for call::Attention; backward, which needs delta, for call::AttentionBackward.
template <class Call>
class Rows final : public AttentionRows {
 public:
  Rows(Backend& memory, const Call& call)
      : memory_(memory), call_(call), s_(call.shape), scale_(1 / std::sqrt(float(s_.width))) {}

  Tensor take(const Tensor& x, const AttentionPart& part, std::int64_t head) override {
    const Tensor y = memory_.empty({part.rows, part.width});
    const bool narrow = x.dtype() == DType::bf16;
    for (std::int64_t t = 0; t < part.rows; ++t)
      for (std::int64_t from = part.offset(head) + t * part.row, i = 0; i < part.width; ++i)
        y.data()[t * part.width + i] = narrow ? to_f32(x.data<bf16>()[from + i]) : x.data()[from + i];
    return y;
  }
  void put(const Tensor& y, const Tensor& x, const AttentionPart& part, std::int64_t head) override {
    for (std::int64_t t = 0; t < part.rows; ++t)
      std::copy_n(x.data() + t * part.width, part.width, y.data() + part.offset(head) + t * part.row);
  }
  void softmax(const Tensor& s, std::int64_t head) override {
    attention_loops().softmax(s.data(), lse(head), whole(head), scale_);
  }
  void softmax_backward([[maybe_unused]] const Tensor& p, [[maybe_unused]] const Tensor& dp,
                        [[maybe_unused]] std::int64_t head) override {
    if constexpr (requires { call_.d_o; }) {
      const auto& loops = attention_loops();
      const Tensor delta = memory_.empty({s_.time});
      const AttentionPart o = s_.o();
      loops.row_dots(delta.data(), call_.d_o.data() + o.offset(head), o.row, call_.o.data() + o.offset(head),
                     o.row, s_.time, s_.width);
      loops.softmax_again(p.data(), lse(head), whole(head), scale_);
      loops.softmax_backward(dp.data(), p.data(), delta.data(), whole(head), scale_);
    }
  }
  void hide(const Tensor& s, std::int64_t head) override { attention_loops().hide(s.data(), whole(head)); }

 private:
  AttentionTile whole(std::int64_t head) const {
    return {s_.first_position,
            s_.time,
            s_.keys,
            s_.keys,
            attention_length(s_, call_.lengths, head / s_.heads),
            s_.mask == AttentionMask::causal};
  }
  float* lse(std::int64_t head) const { return call_.lse.data() + head * s_.time; }

  Backend& memory_;
  const Call& call_;
  const AttentionShape& s_;
  float scale_;
};

/// Head by head, composed (kernels/attention/composed.h), with a quantizer of its own for each operand.
void by_heads(Backend& memory, const auto& call, const auto& composed) {
  parallel_for(call.shape.batch * call.shape.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    Rows rows(memory, call);
    composed(memory, rows, call, key_head);
  });
}

}  // namespace
}  // namespace mxtape::cpu

namespace mxtape {
namespace {

bool without_dropout(const auto& call, const Quantizer& every) {
  return call.shape.dropout == 0 && every_operand_is(call.quant, every);
}

}  // namespace

void CpuBackend::compute(const call::Attention& call) {
  if (without_dropout(call, bf16_cast)) return cpu::attention_by_pairs(*this, call);
  if (without_dropout(call, f32_passthrough)) return cpu::attention_by_tiles(*this, call);
  cpu::by_heads(*this, call, attention_composed);
}

void CpuBackend::compute(const call::AttentionBackward& call) {
  if (without_dropout(call, bf16_cast)) return cpu::attention_by_pairs_backward(*this, call);
  if (without_dropout(call, f32_passthrough)) return cpu::attention_by_tiles_backward(*this, call);
  cpu::by_heads(*this, call, attention_composed_backward);
}

}  // namespace mxtape
