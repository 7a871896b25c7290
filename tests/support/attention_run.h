#pragma once
#include "tests/support/device.h"
#include "tests/support/tensors.h"

namespace mxtape::test {

struct AttentionRun {
  std::vector<float> o, lse, dqkv;
};

/// Forward and backward on the device, all tensors but lse of type `activations`. Outputs start as NaN: what
/// is not written shows.
inline AttentionRun run_attention(const AttentionShape& s, const std::vector<float>& qkv,
                                  const std::vector<float>& d_o, const AttentionQuant& quant,
                                  const DrawKey& draws = {}, DType activations = DType::f32) {
  const std::int64_t C = s.heads * s.width;
  const auto input = [&](std::int64_t columns, const std::vector<float>& values) {
    const Tensor x = device().empty({s.batch, s.time, columns}, activations);
    device().copy(x, upload(device(), x.shape(), values));
    return x;
  };
  const Tensor in = input(3 * C, qkv), gradient = input(C, d_o);
  const Tensor o = device().empty(gradient.shape(), activations),
               lse = device().empty({s.batch, s.heads, s.time});
  const Tensor dqkv = device().empty(in.shape(), activations);
  for (const Tensor& out : {o, lse, dqkv}) device().fill(out, NAN);
  device().run(call::Attention{o, lse, in, s, quant, draws});
  device().run(call::AttentionBackward{dqkv, gradient, in, o, lse, s, quant, draws});
  return {download(device(), o), download(device(), lse), download(device(), dqkv)};
}

inline AttentionQuant all_slots(const Quantizer& q) { return {q, q, q, q, q, q, q, q, q, q, q, q}; }

}  // namespace mxtape::test
