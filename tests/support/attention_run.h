#pragma once
#include "tests/support/cpu.h"
#include "tests/support/tensors.h"

namespace mxtape::test {

struct AttentionRun {
  std::vector<float> o, lse, dqkv;
};

/// Forward and backward on the CPU. Outputs start as NaN: what is not written shows.
inline AttentionRun run_attention(const AttentionShape& s, const std::vector<float>& qkv,
                                  const std::vector<float>& d_o, const AttentionQuant& quant,
                                  const DrawKey& draws = {}) {
  const std::int64_t C = s.heads * s.width;
  const Tensor in = upload(cpu(), {s.batch, s.time, 3 * C}, qkv),
               gradient = upload(cpu(), {s.batch, s.time, C}, d_o);
  const Tensor o = cpu().empty(gradient.shape()), lse = cpu().empty({s.batch, s.heads, s.time});
  const Tensor dqkv = cpu().empty(in.shape());
  for (const Tensor& out : {o, lse, dqkv}) cpu().fill(out, NAN);
  cpu().attention(o, lse, in, s, quant, draws);
  cpu().attention_backward(dqkv, gradient, in, o, lse, s, quant, draws);
  return {download(cpu(), o), download(cpu(), lse), download(cpu(), dqkv)};
}

inline AttentionQuant all_slots(const Quantizer& q) { return {q, q, q, q, q, q, q, q, q, q, q, q}; }

}  // namespace mxtape::test
