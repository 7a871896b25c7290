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

/// Heads' parts of a run's tensors, one as [rows, D].
struct Slices {
  AttentionShape s;

  std::vector<std::size_t> q(std::int64_t b, std::int64_t h) const {
    return rows(b, s.time, s.time, qkv_row(), h * s.width);
  }
  std::vector<std::size_t> o(std::int64_t b, std::int64_t h) const {
    return rows(b, s.time, s.time, s.heads * s.width, h * s.width);
  }
  /// K (0) or V (1), in qkv, or in kv.
  std::vector<std::size_t> key(int part, std::int64_t b, std::int64_t g) const {
    const std::int64_t first = (part * s.kv_heads + g) * s.width;
    return s.own_keys ? rows(b, s.room, s.keys, 2 * s.kv_heads * s.width, first)
                      : rows(b, s.time, s.time, qkv_row(), s.heads * s.width + first);
  }
  static Floats take(const Floats& x, const std::vector<std::size_t>& places) {
    Floats y;
    for (const std::size_t place : places) y.push_back(x[place]);
    return y;
  }

 private:
  std::int64_t qkv_row() const { return (s.heads + (s.own_keys ? 0 : 2 * s.kv_heads)) * s.width; }
  std::vector<std::size_t> rows(std::int64_t b, std::int64_t room, std::int64_t count, std::int64_t row,
                                std::int64_t first) const {
    std::vector<std::size_t> places;
    for (std::int64_t t = 0; t < count; ++t)
      for (std::int64_t d = 0; d < s.width; ++d)
        places.push_back(std::size_t((b * room + t) * row + first + d));
    return places;
  }
};

/// A rounded operand and the number that its products are multiplied by. What is off before it is rounded may
/// end elsewhere: `slack` says by how much, empty if nothing is.
struct RoundedFloats {
  Floats values;
  Axis axis;  // over which its products sum
  float multiplier = 1;
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
  std::int64_t length = s.keys;  // of the sequence

  /// x of the query head or, of `keys`, of its key head.
  RoundedFloats round(const Floats& x, std::int64_t rows, const Quantizer& q, Axis axis, std::uint32_t slot,
                      bool keys = false) const {
    DrawKey key = draws;
    key.tensor_id += slot;
    const std::int64_t first_sequence = std::int64_t(draws.first_element) / s.time,
                       heads = keys ? s.kv_heads : s.heads, own = keys ? head / (s.heads / s.kv_heads) : head;
    key.first_element = std::uint64_t((first_sequence * heads + own) * std::int64_t(x.size()));
    RoundedFloats y{Floats(x.size()), axis};
    y.multiplier =
        quantize_reference(y.values.data(), x.data(), rows, std::int64_t(x.size()) / rows, axis, q, key);
    return y;
  }
  RoundedFloats round_queries(const Floats& x, const Quantizer& q, Axis axis, std::uint32_t slot) const {
    return round(x, s.time, q, axis, slot);
  }
  RoundedFloats round_keys(const Floats& x, const Quantizer& q, Axis axis, std::uint32_t slot) const {
    return round(x, s.keys, q, axis, slot, true);
  }

  /// The same for P and dS, which may be off by `error` of themselves: rounding is monotonic, so what they
  /// can become lies between what the ends of their ranges do. (Save where a whole block's scale is on the
  /// edge and an element too: the tests' numbers have no such coincidence.)
  RoundedFloats round_scores(const Floats& x, const Quantizer& q, Axis axis, std::uint32_t slot,
                             double error) const {
    RoundedFloats y = round_queries(x, q, axis, slot);
    if (scores == Scores::same_bits) return y;
    y.slack.assign(x.size(), 0);
    for (const double factor : {1 - error, 1 + error}) {
      Floats end(x);
      for (float& v : end) v = float(v * factor);
      const Floats rounded = round_queries(end, q, axis, slot).values;
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
    return (double(s.keys) + 16 * (size + sums) + 16) * unit_roundoff;
  }

  struct Product {
    std::vector<double> value, bound;
    Floats rounded() const { return {value.begin(), value.end()}; }
    /// += another, in f32.
    void add(const Product& other) {
      if (value.empty()) return void(*this = other);
      for (std::size_t i = 0; i < value.size(); ++i) {
        value[i] += other.value[i], bound[i] += other.bound[i];
        bound[i] += unit_roundoff * (std::abs(value[i]) + bound[i]);
      }
    }
  };
  /// [M, N] of a(m, k) and b(n, k).
  Product product(const RoundedFloats& a, const RoundedFloats& b, std::int64_t M, std::int64_t N,
                  std::int64_t K) const {
    Product c;
    const double factor = a.multiplier * b.multiplier;
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t n = 0; n < N; ++n) {
        double sum = 0, size = 0, off = 0;
        for (std::int64_t k = 0; k < K; ++k) {
          const double term = double(a.values[std::size_t(a.axis == Axis::row ? m * K + k : k * M + m)]) *
                              b.values[std::size_t(b.axis == Axis::row ? n * K + k : k * N + n)];
          sum += term, size += std::abs(term);
          if (!a.slack.empty())
            off += double(a.slack[std::size_t(a.axis == Axis::row ? m * K + k : k * M + m)]) *
                   std::abs(b.values[std::size_t(b.axis == Axis::row ? n * K + k : k * N + n)]);
        }
        c.value.push_back(float(sum) * factor);  // the sum is an f32 before it is multiplied
        c.bound.push_back((dot_bound(double(K), size + off) + off + 2 * unit_roundoff * std::abs(sum)) *
                          std::abs(factor));
      }
    return c;
  }

  /// The scores' tile: the whole matrix. The loops have tests of their own.
  cpu::AttentionTile square() const {
    return {s.first_position, s.time, s.keys, s.keys, length, s.mask == AttentionMask::causal};
  }
  float scale() const { return 1 / std::sqrt(float(s.width)); }

  /// S = Q K^T, rounded if that is asked for, with zeros for masked keys.
  Floats products(const Floats& q, const Floats& k) const {
    Floats y = product(round_queries(q, quant.qk_q, Axis::row, 0), round_keys(k, quant.qk_k, Axis::row, 1),
                       s.time, s.keys, s.width)
                   .rounded();
    if (quant.qk_s.is_identity()) return y;
    for (std::int64_t i = 0; i < s.time; ++i)
      for (std::int64_t j = 0; j < s.keys; ++j) {
        const bool behind = s.mask == AttentionMask::causal && j > s.first_position + i;
        if (behind || j >= length) y[std::size_t(i * s.keys + j)] = 0;
      }
    const RoundedFloats rounded = round_queries(y, quant.qk_s, Axis::row, 13);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = rounded.values[i] * rounded.multiplier;
    return y;
  }
  /// P or dP [T, keys] of the query head with the same elements dropped.
  Floats dropped(Floats x) const {
    if (s.dropout == 0) return x;
    DrawKey key = draws;
    key.purpose = Purpose::dropout, key.tensor_id += 12;
    const std::int64_t first_sequence = std::int64_t(draws.first_element) / s.time;
    key.first_element = std::uint64_t((first_sequence * s.heads + head) * s.time * s.keys);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = key.uniform(i) >= s.dropout ? x[i] / (1 - s.dropout) : 0;
    return x;
  }

  Product output(const Floats& q, const Floats& k, const Floats& v, Floats& lse) const {
    Floats p = products(q, k);
    const Floats before = p;
    cpu::attention_loops().softmax(p.data(), lse.data(), square(), scale());
    const double error = score_error(before, lse);
    return product(round_scores(dropped(p), quant.pv_p, Axis::row, 2, error),
                   round_keys(v, quant.pv_v, Axis::column, 3), s.time, s.width, s.keys);
  }

  struct Gradients {
    Product dq, dk, dv;
  };
  Gradients gradients(const Floats& q, const Floats& k, const Floats& v, const Floats& o, const Floats& d_o,
                      const Floats& lse) const {
    const std::int64_t T = s.time, D = s.width, S = s.keys;
    const auto& loops = cpu::attention_loops();
    Floats p = products(q, k);
    const double error = score_error(p, lse);
    loops.softmax_again(p.data(), lse.data(), square(), scale());
    Floats ds = product(round_queries(d_o, quant.dp_do, Axis::row, 6),
                        round_keys(v, quant.dp_v, Axis::row, 7), T, S, D)
                    .rounded();
    ds = dropped(ds);
    Floats delta(std::size_t(T), 0);
    loops.row_dots(delta.data(), d_o.data(), D, o.data(), D, T, D);
    loops.softmax_backward(ds.data(), p.data(), delta.data(), square(), scale());
    return {product(round_scores(ds, quant.dq_ds, Axis::row, 8, error),
                    round_keys(k, quant.dq_k, Axis::column, 9), T, D, S),
            product(round_scores(ds, quant.dk_ds, Axis::column, 10, error),
                    round_queries(q, quant.dk_q, Axis::column, 11), S, D, T),
            product(round_scores(dropped(p), quant.dv_p, Axis::column, 4, error),
                    round_queries(d_o, quant.dv_do, Axis::column, 5), S, D, T)};
  }
};

/// True if every head of a run is the composition of `quant`, its results stored as `activations`.
inline testing::AssertionResult is_composition(const AttentionShape& s, const AttentionInput& in,
                                               const AttentionQuant& quant, const DrawKey& draws,
                                               const AttentionRun& got, DType activations = DType::f32,
                                               Scores scores = Scores::same_bits) {
  const Slices at{s};
  const Floats &keys = s.own_keys ? in.kv : in.qkv, &key_gradients = s.own_keys ? got.dkv : got.dqkv;
  const auto check = [&](const char* name, const Floats& x, const std::vector<std::size_t>& places,
                         const Composition::Product& want, std::int64_t head) -> testing::AssertionResult {
    std::vector<double> bound = want.bound;
    if (activations == DType::bf16)
      for (std::size_t i = 0; i < bound.size(); ++i)
        bound[i] += 0x1p-8 * (std::abs(want.value[i]) + bound[i]);
    auto result = within(Slices::take(x, places), want.value, bound);
    return result ? result : result << ": " << name << " of head " << head;
  };
  Composition::Product dk, dv;
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
    const std::int64_t b = head / s.heads, h = head % s.heads, group = s.heads / s.kv_heads, g = h / group;
    const std::int64_t length = in.lengths.empty() ? s.keys : in.lengths[std::size_t(b)];
    const Composition c{s, quant, draws, head, scores, length};
    const Floats q = Slices::take(in.qkv, at.q(b, h)), k = Slices::take(keys, at.key(0, b, g)),
                 v = Slices::take(keys, at.key(1, b, g)), gradient = Slices::take(in.d_o, at.o(b, h));
    Floats lse(std::size_t(s.time), 0);
    const auto output = c.output(q, k, v, lse);
    const auto gradients = c.gradients(q, k, v, Slices::take(got.o, at.o(b, h)), gradient, lse);
    const double lse_error = scores == Scores::same_bits ? 0 : c.score_error(c.products(q, k), lse);
    for (std::int64_t t = 0; t < s.time; ++t)
      if (const double off = std::abs(double(lse[std::size_t(t)]) - got.lse[std::size_t(head * s.time + t)]);
          !(off <= lse_error))
        return testing::AssertionFailure() << "lse of head " << head << " at " << t << " is off by " << off;
    if (auto r = check("o", got.o, at.o(b, h), output, head); !r) return r;
    if (auto r = check("dq", got.dqkv, at.q(b, h), gradients.dq, head); !r) return r;
    if (h % group == 0) dk = dv = {};
    dk.add(gradients.dk), dv.add(gradients.dv);
    if ((h + 1) % group != 0) continue;
    if (auto r = check("dk", key_gradients, at.key(0, b, g), dk, head); !r) return r;
    if (auto r = check("dv", key_gradients, at.key(1, b, g), dv, head); !r) return r;
  }
  return testing::AssertionSuccess();
}

}  // namespace mxtape::test
