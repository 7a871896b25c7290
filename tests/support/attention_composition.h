#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/quantize.h"
#include "kernels/cpu/loops/attention_loops.h"
#include "tests/support/attention_run.h"
#include "tests/support/closeness.h"

/// Attention with quantized operands as its composition, written out: quantize by the scalar definition,
/// multiply in double. Q, K, dO and V of the tests have so few significant bits that S and dP are exact.
namespace mxtape::test {

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

/// A rounded operand and the number that its products are multiplied by. What is off before it is rounded may
/// end elsewhere: `slack` says by how much, empty if nothing is.
struct Rounded {
  Floats values;
  float multiplier;
  Floats slack{};
};

/// Whether a device's P and dS have the CPU's bits, or exponentials and sums of its own.
enum class Scores { same_bits, own_softmax };

struct Composition {
  AttentionShape s;
  AttentionQuant quant;
  DrawKey draws;
  std::int64_t head;  // b H + h
  Scores scores = Scores::same_bits;

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

  /// The same for P and dS, which may be off by `error` of themselves: rounding is monotonic, so what they
  /// can become lies between what the ends of their ranges do. (Save where a whole block's scale is on the
  /// edge and an element too: the tests' numbers have no such coincidence.)
  Rounded round_scores(const Floats& x, const Quantizer& q, Axis axis, std::uint32_t slot,
                       double error) const {
    Rounded y = round(x, q, axis, slot);
    if (scores == Scores::same_bits) return y;
    y.slack.assign(x.size(), 0);
    for (const double factor : {1 - error, 1 + error}) {
      Floats end(x);
      for (float& v : end) v = float(v * factor);
      const Floats rounded = round(end, q, axis, slot).values;
      for (std::size_t i = 0; i < x.size(); ++i)
        y.slack[i] = std::max(y.slack[i], std::abs(rounded[i] - y.values[i]));
    }
    return y;
  }

  /// Relative error of P = e^(scale S - lse), S exact, against another way to compute it, which is lse's
  /// absolute one too: T roundings of the sums, exponentials within 2^-22 there and here, and roundings of
  /// their arguments, at most |scale S| + |lse|, fewer than eight in each.
  double score_error(const Floats& products, const Floats& lse) const {
    double size = 0, sums = 0;
    for (const float v : products) size = std::max(size, std::abs(double(v)) * scale());
    for (const float v : lse) sums = std::max(sums, std::abs(double(v)));
    return (double(s.time) + 16 * (size + sums) + 16) * unit_roundoff;
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
        double sum = 0, size = 0, off = 0;
        for (std::int64_t k = 0; k < K; ++k) {
          const double term = double(a.values[std::size_t(a_trans == Trans::no ? m * K + k : k * M + m)]) *
                              b.values[std::size_t(b_trans == Trans::no ? k * N + n : n * K + k)];
          sum += term, size += std::abs(term);
          if (!a.slack.empty())
            off += double(a.slack[std::size_t(a_trans == Trans::no ? m * K + k : k * M + m)]) *
                   std::abs(b.values[std::size_t(b_trans == Trans::no ? k * N + n : n * K + k)]);
        }
        c.value.push_back(float(sum) * factor);  // the sum is an f32 before it is multiplied
        c.bound.push_back((dot_bound(double(K), size + off) + off + 2 * unit_roundoff * std::abs(sum)) *
                          std::abs(factor));
      }
    return c;
  }

  /// The scores' tile: the whole square. The loops have tests of their own.
  cpu::AttentionTile square() const { return {0, s.time, s.time, s.time}; }
  float scale() const { return 1 / std::sqrt(float(s.width)); }

  /// S = Q K^T.
  Floats products(const Floats& q, const Floats& k) const {
    return product(round(q, quant.qk_q, Axis::row, 0), Trans::no, round(k, quant.qk_k, Axis::row, 1),
                   Trans::yes, s.time, s.time, s.width)
        .rounded();
  }

  Product output(const Floats& q, const Floats& k, const Floats& v, Floats& lse) const {
    Floats p = products(q, k);
    const Floats before = p;
    cpu::attention_loops().softmax(p.data(), nullptr, lse.data(), square(), scale());
    const double error = score_error(before, lse);
    return product(round_scores(p, quant.pv_p, Axis::row, 2, error), Trans::no,
                   round(v, quant.pv_v, Axis::column, 3), Trans::no, s.time, s.width, s.time);
  }

  struct Gradients {
    Product dq, dk, dv;
  };
  Gradients gradients(const Floats& q, const Floats& k, const Floats& v, const Floats& o, const Floats& d_o,
                      const Floats& lse) const {
    const std::int64_t T = s.time, D = s.width;
    const auto& loops = cpu::attention_loops();
    Floats p = products(q, k);
    const double error = score_error(p, lse);
    loops.softmax_again(p.data(), nullptr, lse.data(), square(), scale());
    Floats ds = product(round(d_o, quant.dp_do, Axis::row, 6), Trans::no, round(v, quant.dp_v, Axis::row, 7),
                        Trans::yes, T, T, D)
                    .rounded();
    Floats delta(std::size_t(T), 0);
    loops.row_dots(delta.data(), d_o.data(), D, o.data(), D, T, D);
    loops.softmax_backward(ds.data(), nullptr, p.data(), delta.data(), square(), scale());
    return {product(round_scores(ds, quant.dq_ds, Axis::row, 8, error), Trans::no,
                    round(k, quant.dq_k, Axis::column, 9), Trans::no, T, D, T),
            product(round_scores(ds, quant.dk_ds, Axis::column, 10, error), Trans::yes,
                    round(q, quant.dk_q, Axis::column, 11), Trans::no, T, D, T),
            product(round_scores(p, quant.dv_p, Axis::column, 4, error), Trans::yes,
                    round(d_o, quant.dv_do, Axis::column, 5), Trans::no, T, D, T)};
  }
};

/// True if every head of a run is the composition of `quant`, its results stored as `activations`.
inline testing::AssertionResult is_composition(const AttentionShape& s, const Floats& qkv, const Floats& d_o,
                                               const AttentionQuant& quant, const DrawKey& draws,
                                               const AttentionRun& got, DType activations = DType::f32,
                                               Scores scores = Scores::same_bits) {
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
    const Slices at{s, head / s.heads, head % s.heads};
    const Composition c{s, quant, draws, head, scores};
    const Floats q = at.take(qkv, 0, 3), k = at.take(qkv, 1, 3), v = at.take(qkv, 2, 3),
                 gradient = at.take(d_o, 0, 1);
    const Floats o = at.take(got.o, 0, 1);
    Floats lse(std::size_t(s.time), 0);
    const auto output = c.output(q, k, v, lse);
    const auto g = c.gradients(q, k, v, o, gradient, lse);
    const double lse_error = scores == Scores::same_bits ? 0 : c.score_error(c.products(q, k), lse);
    for (std::int64_t t = 0; t < s.time; ++t)
      if (const double off = std::abs(double(lse[std::size_t(t)]) - got.lse[std::size_t(head * s.time + t)]);
          !(off <= lse_error))
        return testing::AssertionFailure() << "lse of head " << head << " at " << t << " is off by " << off;
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

}  // namespace mxtape::test
