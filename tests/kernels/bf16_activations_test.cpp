#include "kernels/observers/bf16_activations.h"

#include <gtest/gtest.h>

#include "kernels/calls_rows.h"
#include "tests/support/device.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

Tensor narrow(Backend& backend, Shape shape, const std::vector<float>& values) {
  const Tensor y = backend.empty(shape, DType::bf16);
  backend.copy(y, upload(backend, shape, values));
  return y;
}
Tensor wide(Backend& backend, const Tensor& x) {
  const Tensor y = backend.empty(x.shape());
  backend.copy(y, x);
  return y;
}
std::vector<float> rounded(std::vector<float> x) {
  for (float& v : x) v = to_f32(to_bf16(v));
  return x;
}

// Every kernel on bf16 tensors is the f32 kernel on the same values, its result rounded once.
void expect_roundings_of_f32(std::int64_t rows, std::int64_t C) {
  Backend& d = device();
  const Shape shape{rows, C};
  SCOPED_TRACE(shape.text());
  const Tensor a = narrow(d, shape, normals(rows * C, 1)), b = narrow(d, shape, normals(rows * C, 2));
  const Tensor y = d.empty(shape, DType::bf16), f = d.empty(shape);
  const auto expect = [&](const char* op) { EXPECT_EQ(download(d, y), rounded(download(d, f))) << op; };

  d.run(call::Add{y, a, b}), d.run(call::Add{f, wide(d, a), wide(d, b)}), expect("add");
  d.run(call::Gelu{y, a, Gelu::erf}), d.run(call::Gelu{f, wide(d, a), Gelu::erf}), expect("gelu");
  d.run(call::GeluBackward{y, b, a, Gelu::tanh}),
      d.run(call::GeluBackward{f, wide(d, b), wide(d, a), Gelu::tanh});
  expect("gelu_backward");
  const DrawKey key{.purpose = Purpose::dropout};
  d.run(call::Dropout{y, a, 0.3f, key}), d.run(call::Dropout{f, wide(d, a), 0.3f, key}), expect("dropout");

  const Tensor gain = upload(d, {C}, normals(C, 3)), bias = upload(d, {C}, normals(C, 4));
  const Tensor mean = d.empty({rows}), rstd = d.empty({rows}), dgain = d.empty({C}), dbias = d.empty({C});
  d.run(call::Norm{y, mean, rstd, a, gain, bias, 1e-5f});
  d.run(call::Norm{f, mean, rstd, wide(d, a), gain, bias, 1e-5f}), expect("layer_norm");
  d.run(call::NormBackward{y, dgain, dbias, b, a, mean, rstd, gain, Write::overwrite});
  const auto narrow_sums = download(d, dgain);
  d.run(call::NormBackward{f, dgain, dbias, wide(d, b), wide(d, a), mean, rstd, gain, Write::overwrite});
  expect("layer_norm_backward");
  EXPECT_EQ(download(d, dgain), narrow_sums);
  d.run(call::NormBackward{y, dgain, dbias, b, a, mean, rstd, gain, Write::overwrite, b});
  d.run(call::NormBackward{f, dgain, dbias, wide(d, b), wide(d, a), mean, rstd, gain, Write::overwrite,
                           wide(d, b)});
  expect("layer_norm_backward, others");

  d.run(call::Norm{y, {}, rstd, a, gain}), d.run(call::Norm{f, {}, rstd, wide(d, a), gain}),
      expect("rms_norm");
  d.run(call::NormBackward{y, dgain, {}, b, a, {}, rstd, gain, Write::overwrite, b});
  const auto narrow_gain = download(d, dgain);
  d.run(
      call::NormBackward{f, dgain, {}, wide(d, b), wide(d, a), {}, rstd, gain, Write::overwrite, wide(d, b)});
  expect("rms_norm_backward, others");
  EXPECT_EQ(download(d, dgain), narrow_gain);

  const Tensor both = narrow(d, {rows, 2 * C}, normals(rows * 2 * C, 7)),
               dboth = d.empty(both.shape(), DType::bf16), wide_dboth = d.empty(both.shape());
  d.run(call::Swiglu{y, both}), d.run(call::Swiglu{f, wide(d, both)}), expect("swiglu");
  d.run(call::SwigluBackward{dboth, b, both}),
      d.run(call::SwigluBackward{wide_dboth, wide(d, b), wide(d, both)});
  EXPECT_EQ(download(d, dboth), rounded(download(d, wide_dboth))) << "swiglu_backward";

  const std::int64_t D = 2 * C;  // two heads of queries, one of keys
  const Shape heads{1, rows, 4 * D};
  const Tensor qkv = narrow(d, heads, normals(heads.count(), 8)),
               dqkv = narrow(d, heads, normals(heads.count(), 9)), turned = d.empty(heads, DType::bf16),
               wide_turned = d.empty(heads);
  const Tensor cos = upload(d, {rows, C}, normals(rows * C, 10)),
               sin = upload(d, {rows, C}, normals(rows * C, 11));
  const Tensor q = upload(d, {D}, normals(D, 12)), k = upload(d, {D}, normals(D, 13)), dq = d.empty({D}),
               dk = d.empty({D});
  const auto expect_turned = [&](const char* op) {
    EXPECT_EQ(download(d, turned), rounded(download(d, wide_turned))) << op;
  };
  d.run(call::Rotary{turned, qkv, cos, sin, 2, 1}),
      d.run(call::Rotary{wide_turned, wide(d, qkv), cos, sin, 2, 1});
  expect_turned("rotary");
  d.run(call::RotaryBackward{turned, dqkv, cos, sin, 2, 1});
  d.run(call::RotaryBackward{wide_turned, wide(d, dqkv), cos, sin, 2, 1}), expect_turned("rotary_backward");
  if (D <= 512) {
    const Tensor each = d.empty({1, rows, 3});
    d.run(call::Rotary{turned, qkv, cos, sin, 2, 1, 0, each, q, k});
    d.run(call::Rotary{wide_turned, wide(d, qkv), cos, sin, 2, 1, 0, each, q, k}),
        expect_turned("rotary, norms");
    d.run(call::RotaryBackward{turned, dqkv, cos, sin, 2, 1, 0, dq, dk, qkv, each, q, k});
    const auto dgains = std::pair(download(d, dq), download(d, dk));
    d.run(call::RotaryBackward{wide_turned, wide(d, dqkv), cos, sin, 2, 1, 0, dq, dk, wide(d, qkv), each, q,
                               k});
    expect_turned("rotary_backward, norms");
    EXPECT_EQ(std::pair(download(d, dq), download(d, dk)), dgains);
  }

  const Tensor tokens = upload(d, {1, rows}, random_tokens(rows, 7, 5));
  const Tensor table = upload(d, {7, C}, normals(7 * C, 6)), dtable = d.empty({7, C});
  d.run(call::Embedding{y, table, {}, tokens}), d.run(call::Embedding{f, table, {}, tokens}),
      expect("embedding");
  d.run(call::EmbeddingBackward{dtable, {}, b, tokens, Write::overwrite, Write::overwrite});
  const auto sums = download(d, dtable);
  d.run(call::EmbeddingBackward{dtable, {}, wide(d, b), tokens, Write::overwrite, Write::overwrite});
  EXPECT_EQ(download(d, dtable), sums);

  const Tensor targets = upload(d, {rows}, random_tokens(rows, C, 7));
  const Tensor loss = d.empty({1}), losses = d.empty({rows});
  d.run(call::CrossEntropy{loss, losses, y, a, targets, 1});
  const auto narrow_losses = download(d, losses);
  d.run(call::CrossEntropy{loss, losses, f, wide(d, a), targets, 1}), expect("cross_entropy");
  EXPECT_EQ(download(d, losses), narrow_losses);
}

TEST(Bf16Activations, AreTheF32KernelsOnTheSameValuesRoundedOnce) {
  expect_roundings_of_f32(5, 33);
  expect_roundings_of_f32(3, 1);
  expect_roundings_of_f32(70, 64);
  expect_roundings_of_f32(2, 4200);
}

}  // namespace
}  // namespace mxtape::test
