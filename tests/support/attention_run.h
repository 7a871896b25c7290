#pragma once
#include "tests/support/device.h"
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
  const Tensor in = upload(device(), {s.batch, s.time, 3 * C}, qkv),
               gradient = upload(device(), {s.batch, s.time, C}, d_o);
  const Tensor o = device().empty(gradient.shape()), lse = device().empty({s.batch, s.heads, s.time});
  const Tensor dqkv = device().empty(in.shape());
  for (const Tensor& out : {o, lse, dqkv}) device().fill(out, NAN);
  device().attention(o, lse, in, s, quant, draws);
  device().attention_backward(dqkv, gradient, in, o, lse, s, quant, draws);
  return {download(device(), o), download(device(), lse), download(device(), dqkv)};
}

inline AttentionQuant all_slots(const Quantizer& q) { return {q, q, q, q, q, q, q, q, q, q, q, q}; }

}  // namespace mxtape::test
