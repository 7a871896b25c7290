// Attention with quantized operands against its composition, written out: quantize by the scalar definition,
// multiply in double. Q, K, dO and V have so few significant bits that S and dP are exact, so P and dS, and
// all that is quantized from them, must have the same bits; the products that leave attention are held to the
// bound of a sum.
#include <gtest/gtest.h>

#include <cmath>

#include "formats/quantize.h"
#include "kernels/cpu/attention_loops.h"
#include "tests/support/attention_run.h"
#include "tests/support/closeness.h"
#include "tests/support/every_tier.h"
#include "tests/support/reference_attention.h"

namespace mxtape::test {
namespace {

using Floats = std::vector<float>;

/// One head's part of qkv or o as [T, D].
struct Slices {
  AttentionShape s;
  std::int64_t b, h;
  std::size_t place(std::int64_t t, std::int64_t part, std::int64_t parts) const {
    return std::size_t((((b * s.time + t) * parts + part) * s.heads + h) * s.width);
  }
  Floats take(const Floats& x, std::int64_t part, std::int64_t parts) const {
    Floats y;
    for (std::int64_t t = 0; t < s.time; ++t)
      y.insert(y.end(), &x[place(t, part, parts)], &x[place(t, part, parts)] + s.width);
    return y;
  }
};

/// A rounded operand and the number that its products are multiplied by.
struct Rounded {
  Floats values;
  float multiplier;
};

struct Composition {
  AttentionShape s;
  AttentionQuant quant;
  DrawKey draws;
  std::int64_t head;  // b H + h

  Rounded round(const Floats& x, const Quantizer& q, Axis axis, std::uint32_t slot) const {
    DrawKey key = draws;
    key.tensor_id += slot;
    const std::int64_t first_sequence = std::int64_t(draws.first_element) / s.time;
    key.first_element = std::uint64_t((first_sequence * s.heads + head) * std::int64_t(x.size()));
    Rounded y{Floats(x.size()), 1};
    y.multiplier =
        quantize_reference(y.values.data(), x.data(), s.time, std::int64_t(x.size()) / s.time, axis, q, key);
    return y;
  }

  struct Product {
    std::vector<double> value, bound;
    Floats rounded() const { return {value.begin(), value.end()}; }
  };
  /// op(a) [M, K] times op(b) [K, N].
  Product product(const Rounded& a, Trans a_trans, const Rounded& b, Trans b_trans, std::int64_t M,
                  std::int64_t N, std::int64_t K) const {
    Product c;
    const double factor = a.multiplier * b.multiplier;
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t n = 0; n < N; ++n) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < K; ++k) {
          const double term = double(a.values[std::size_t(a_trans == Trans::no ? m * K + k : k * M + m)]) *
                              b.values[std::size_t(b_trans == Trans::no ? k * N + n : n * K + k)];
          sum += term, size += std::abs(term);
        }
        c.value.push_back(float(sum) * factor);  // the sum is an f32 before it is multiplied
        c.bound.push_back((dot_bound(double(K), size) + 2 * unit_roundoff * std::abs(sum)) *
                          std::abs(factor));
      }
    return c;
  }

  /// The scores' tile: the whole square. The loops have tests of their own.
  cpu::AttentionTile square() const { return {0, s.time, s.time, s.time}; }
  float scale() const { return 1 / std::sqrt(float(s.width)); }

  Product output(const Floats& q, const Floats& k, const Floats& v, Floats& lse) const {
    Floats p = product(round(q, quant.qk_q, Axis::cols, 0), Trans::no, round(k, quant.qk_k, Axis::cols, 1),
                       Trans::yes, s.time, s.time, s.width)
                   .rounded();
    cpu::attention_loops().softmax(p.data(), nullptr, lse.data(), square(), scale());
    return product(round(p, quant.pv_p, Axis::cols, 2), Trans::no, round(v, quant.pv_v, Axis::rows, 3),
                   Trans::no, s.time, s.width, s.time);
  }

  struct Gradients {
    Product dq, dk, dv;
  };
  Gradients gradients(const Floats& q, const Floats& k, const Floats& v, const Floats& o, const Floats& d_o,
                      const Floats& lse) const {
    const std::int64_t T = s.time, D = s.width;
    const auto& loops = cpu::attention_loops();
    Floats p = product(round(q, quant.qk_q, Axis::cols, 0), Trans::no, round(k, quant.qk_k, Axis::cols, 1),
                       Trans::yes, T, T, D)
                   .rounded();
    loops.softmax_again(p.data(), nullptr, lse.data(), square(), scale());
    Floats ds = product(round(d_o, quant.dp_do, Axis::cols, 6), Trans::no,
                        round(v, quant.dp_v, Axis::cols, 7), Trans::yes, T, T, D)
                    .rounded();
    Floats delta(std::size_t(T), 0);
    loops.row_dots(delta.data(), d_o.data(), D, o.data(), D, T, D);
    loops.softmax_backward(ds.data(), nullptr, p.data(), delta.data(), square(), scale());
    return {product(round(ds, quant.dq_ds, Axis::cols, 8), Trans::no, round(k, quant.dq_k, Axis::rows, 9),
                    Trans::no, T, D, T),
            product(round(ds, quant.dk_ds, Axis::rows, 10), Trans::yes, round(q, quant.dk_q, Axis::rows, 11),
                    Trans::no, T, D, T),
            product(round(p, quant.dv_p, Axis::rows, 4), Trans::yes, round(d_o, quant.dv_do, Axis::rows, 5),
                    Trans::no, T, D, T)};
  }
};

/// True if every head of a run is the composition of `quant`, its results stored as `activations`.
testing::AssertionResult is_composition(const AttentionShape& s, const Floats& qkv, const Floats& d_o,
                                        const AttentionQuant& quant, const DrawKey& draws,
                                        const AttentionRun& got, DType activations = DType::f32) {
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
    const Slices at{s, head / s.heads, head % s.heads};
    const Composition c{s, quant, draws, head};
    const Floats q = at.take(qkv, 0, 3), k = at.take(qkv, 1, 3), v = at.take(qkv, 2, 3),
                 gradient = at.take(d_o, 0, 1);
    const Floats o = at.take(got.o, 0, 1);
    Floats lse(std::size_t(s.time), 0);
    const auto output = c.output(q, k, v, lse);
    const auto g = c.gradients(q, k, v, o, gradient, lse);
    if (!std::equal(lse.begin(), lse.end(), got.lse.begin() + head * s.time))
      return testing::AssertionFailure() << "lse of head " << head;
    struct Part {
      const char* name;
      Floats got;
      const Composition::Product& want;
    };
    for (const Part& part :
         {Part{"o", o, output}, Part{"dq", at.take(got.dqkv, 0, 3), g.dq},
          Part{"dk", at.take(got.dqkv, 1, 3), g.dk}, Part{"dv", at.take(got.dqkv, 2, 3), g.dv}}) {
      std::vector<double> bound = part.want.bound;
      if (activations == DType::bf16)
        for (std::size_t i = 0; i < bound.size(); ++i)
          bound[i] += 0x1p-8 * (std::abs(part.want.value[i]) + bound[i]);
      if (auto result = within(part.got, part.want.value, bound); !result)
        return result << ": " << part.name << " of head " << head;
    }
  }
  return testing::AssertionSuccess();
}

struct Input {
  Floats qkv, d_o;
  explicit Input(const AttentionShape& s)
      : qkv(normals(s.batch * s.time * 3 * s.heads * s.width, 1)),
        d_o(normals(s.batch * s.time * s.heads * s.width, 2)) {}
};

const DrawKey draws{
    .seed = 5, .tensor_id = 40, .step = 3, .first_element = 140};  // two sequences of 70 before

/// Twelve different slots, stochastic ones among them.
AttentionQuant mixture() {
  AttentionQuant q;
  q.qk_q = mxfp4, q.qk_k = parse_quantizer("mxfp4 round=stochastic");
  q.pv_p = mxfp8_e4m3, q.pv_v = mxfp6_e2m3;
  q.dv_p = parse_quantizer("mxfp6_e3m2 round=stochastic"), q.dv_do = mxfp8_e5m2;
  q.dp_do = parse_quantizer("mxfp4 round=stochastic"), q.dp_v = mxfp4;
  q.dq_ds = parse_quantizer("mxfp4 round=stochastic"), q.dq_k = mxint8;
  q.dk_ds = bf16_cast, q.dk_q = f32_passthrough;
  return q;
}

TEST(QuantizedAttention, EverySlotIsQuantizedAsTheCompositionSays) {
  for (const AttentionShape& s :
       {AttentionShape{2, 70, 3, 32}, AttentionShape{1, 7, 1, 5}, AttentionShape{1, 1, 2, 16}}) {
    const Input in(s);
    const AttentionRun got = run_attention(s, in.qkv, in.d_o, mixture(), draws);
    EXPECT_TRUE(is_composition(s, in.qkv, in.d_o, mixture(), draws, got)) << s.time;
  }
}

TEST(QuantizedAttention, Bf16ActivationsAreQuantizedAsTheyAre) {
  const AttentionShape s{2, 70, 3, 32};
  Input in(s);
  for (Floats* x : {&in.qkv, &in.d_o})
    for (float& v : *x) v = to_f32(to_bf16(v));
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, mixture(), draws, DType::bf16);
  EXPECT_TRUE(is_composition(s, in.qkv, in.d_o, mixture(), draws, got, DType::bf16));
}

TEST(QuantizedAttention, TheTensorScaleOfNvfp4IsOnePerHead) {
  const AttentionShape s{1, 70, 2, 16};
  Input in(s);
  for (std::size_t i = 0; i < in.qkv.size(); ++i)
    if (i / 16 % 2) in.qkv[i] *= 50;  // the second head is far larger
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, all_slots(nvfp4), draws);
  EXPECT_TRUE(is_composition(s, in.qkv, in.d_o, all_slots(nvfp4), draws, got));
}

TEST(QuantizedAttention, RangeMultipliersAreUndone) {
  const AttentionShape s{1, 40, 1, 32};
  const Input in(s);
  const AttentionQuant quant = all_slots(parse_quantizer("mxfp4 alpha=0.75"));
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, quant, draws);
  EXPECT_TRUE(is_composition(s, in.qkv, in.d_o, quant, draws, got));
}

TEST(QuantizedAttention, ByHeadsIsTheSameFunctionAsByTiles) {
  // One operand in f32 takes the way by heads; Q is exact in bf16, so that operand's values are the same.
  const AttentionShape s{2, 70, 2, 20};
  Input in(s);
  for (float& v : in.qkv) v = to_f32(to_bf16(v));
  AttentionQuant mixed = all_slots(bf16_cast);
  mixed.dk_q = f32_passthrough;
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, mixed);
  const reference::Attention want{s, in.qkv, in.d_o, DType::bf16};
  const Reference o = want.forward(), dqkv = want.backward(got.o);
  EXPECT_TRUE(within(got.o, o.value, o.bound));
  EXPECT_TRUE(within(got.dqkv, dqkv.value, dqkv.bound));
}

TEST(QuantizedAttention, TiersAndThreadCountsGiveTheSameBits) {
  const AttentionShape s{2, 70, 3, 20};
  const Input in(s);
  expect_same_bits_everywhere([&] {
    AttentionRun r = run_attention(s, in.qkv, in.d_o, all_slots(mxfp8_e4m3));
    append(r.o, r.lse);
    return append(r.o, r.dqkv);
  });
}

TEST(QuantizedAttention, TheTestSeesEachSlotAndTheDraws) {
  const AttentionShape s{1, 70, 1, 32};
  const Input in(s);
  const AttentionQuant right = mixture();
  const AttentionRun got = run_attention(s, in.qkv, in.d_o, right, draws);
  for (Quantizer AttentionQuant::*const slot :
       {&AttentionQuant::qk_q, &AttentionQuant::qk_k, &AttentionQuant::pv_p, &AttentionQuant::pv_v,
        &AttentionQuant::dv_p, &AttentionQuant::dv_do, &AttentionQuant::dp_do, &AttentionQuant::dp_v,
        &AttentionQuant::dq_ds, &AttentionQuant::dq_k, &AttentionQuant::dk_ds, &AttentionQuant::dk_q}) {
    AttentionQuant wrong = right;
    wrong.*slot = mx(e3m2, 16);
    EXPECT_FALSE(is_composition(s, in.qkv, in.d_o, wrong, draws, got));
  }
  DrawKey other = draws;
  other.first_element += 70;
  EXPECT_FALSE(is_composition(s, in.qkv, in.d_o, right, other, got));
}

}  // namespace
}  // namespace mxtape::test
