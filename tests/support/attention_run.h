#pragma once
#include "kernels/calls_rows.h"
#include "tests/support/device.h"
#include "tests/support/tensors.h"

namespace mxtape::test {

/// Numbers for a shape.
struct AttentionInput {
  std::vector<float> qkv, d_o, kv{};
  std::vector<std::int32_t> lengths{};
  explicit AttentionInput(const AttentionShape& s)
      : qkv(normals(s.batch * s.time * (s.heads + (s.own_keys ? 0 : 2 * s.kv_heads)) * s.width, 1)),
        d_o(normals(s.batch * s.time * s.heads * s.width, 2)) {
    if (s.own_keys) kv = normals(s.batch * s.room * 2 * s.kv_heads * s.width, 3);
  }
};

struct AttentionRun {
  std::vector<float> o, lse, dqkv, dkv{};
};

/// Forward and backward on the device, all tensors but lse of type `activations`. Outputs start as NaN: what
/// is not written shows. `kv` and `lengths` as in call::Attention.
inline AttentionRun run_attention(const AttentionShape& s, const std::vector<float>& qkv,
                                  const std::vector<float>& d_o, const AttentionQuant& quant,
                                  const DrawKey& draws = {}, DType activations = DType::f32,
                                  const std::vector<float>& kv = {},
                                  const std::vector<std::int32_t>& lengths = {}) {
  const auto input = [&](std::int64_t rows, std::int64_t columns, const std::vector<float>& values) {
    const Tensor x = device().empty({s.batch, rows, columns}, activations);
    device().copy(x, upload(device(), x.shape(), values));
    return x;
  };
  const Tensor in = input(s.time, s.q_row(), qkv), gradient = input(s.time, s.heads * s.width, d_o);
  Tensor keys, dkv, seen;
  if (s.own_keys) {
    keys = input(s.room, 2 * s.kv_heads * s.width, kv);
    dkv = device().empty(keys.shape(), activations);
  }
  if (!lengths.empty()) seen = upload(device(), {s.batch}, lengths);
  const Tensor o = device().empty(gradient.shape(), activations),
               lse = device().empty({s.batch, s.heads, s.time});
  const Tensor dqkv = device().empty(in.shape(), activations);
  for (const Tensor& out : {o, lse, dqkv, dkv})
    if (out) device().fill(out, NAN);
  device().run(call::Attention{o, lse, in, s, quant, draws, keys, seen});
  device().run(call::AttentionBackward{dqkv, gradient, in, o, lse, s, quant, draws, dkv, keys, seen});
  return {download(device(), o), download(device(), lse), download(device(), dqkv),
          dkv ? download(device(), dkv) : std::vector<float>{}};
}

inline AttentionRun run_attention(const AttentionShape& s, const AttentionInput& in,
                                  const AttentionQuant& quant, const DrawKey& draws = {},
                                  DType activations = DType::f32) {
  return run_attention(s, in.qkv, in.d_o, quant, draws, activations, in.kv, in.lengths);
}

inline AttentionQuant all_slots(const Quantizer& q) { return {q, q, q, q, q, q, q, q, q, q, q, q}; }

}  // namespace mxtape::test
