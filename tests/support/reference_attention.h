#pragma once

#include <algorithm>
#include <cmath>
#include "kernels/backend.h"
#include "tests/support/device.h"
#include "tests/support/reference_rows.h"

namespace mxtape::test::reference {

/// How P and dS become operands.
enum class Scores {
  as_operands,  ///< like all the others
  near_bf16     ///< to bf16, P and dS or multiples of them: off by at most half an ulp, 2^-8 of themselves
};

/// Causal attention and its gradient in double, every operand rounded by `round` first: f32 or bf16 to
/// nearest. A computed P or dS near the middle between two bf16 numbers may be rounded either way; the bounds
/// allow for that.
struct Attention {
  AttentionShape s;
  const Floats &qkv, &d_o;
  DType operands;
  std::int64_t keys_too_many = 0;  ///< moves the causal mask, to show that the bounds see it
  Scores scores_are = Scores::as_operands;
  Floats kv{};                          ///< keys and values, if not in qkv
  std::vector<std::int32_t> lengths{};  ///< of keys, if not all are seen

  Reference forward() const {
    Reference o;
    o.value.resize(d_o.size()), o.bound.resize(d_o.size());
    for_heads([&](std::int64_t b, std::int64_t h) {
      for (std::int64_t i = 0; i < s.time; ++i) {
        const Row row = scores(b, h, i);
        for (std::int64_t d = 0; d < s.width; ++d) {
          const std::size_t at = o_index(b, i, h, d);
          for (std::size_t j = 0; j < row.p.size(); ++j)
            add(o, at, rounded(row.p[j], row.p[j] * row.relative[j]),
                round(key(1, b, std::int64_t(j), h, d)));
        }
      }
    });
    return o;
  }

  /// Of qkv, then of kv. `o` is what the forward pass gave: the backward pass reads it.
  Reference backward(const Floats& o) const {
    Reference g;
    g.value.resize(qkv.size() + kv.size()), g.bound.resize(g.value.size());
    for_heads([&](std::int64_t b, std::int64_t h) {
      for (std::int64_t i = 0; i < s.time; ++i) {
        const Row row = scores(b, h, i);
        double delta = 0, delta_size = 0;
        for (std::int64_t d = 0; d < s.width; ++d) {
          const double term = double(d_o[o_index(b, i, h, d)]) * o[o_index(b, i, h, d)];
          delta += term, delta_size += std::abs(term);
        }
        for (std::int64_t j = 0; j < std::int64_t(row.p.size()); ++j) {
          const double p = row.p[std::size_t(j)], p_error = p * row.relative[std::size_t(j)];
          double dp = 0, dp_size = 0;
          for (std::int64_t d = 0; d < s.width; ++d) {
            const double term = round(d_o[o_index(b, i, h, d)]) * round(key(1, b, j, h, d));
            dp += term, dp_size += std::abs(term);
          }
          const double scale = 1 / std::sqrt(double(s.width)), difference = dp - delta;
          const double error =
              scale * (p_error * std::abs(difference) +
                       p * (gamma(double(s.width)) * (dp_size + delta_size) + 5 * u * std::abs(difference)));
          const Rounded ds = rounded(scale * p * difference, error), rp = rounded(p, p_error);
          for (std::int64_t d = 0; d < s.width; ++d) {
            add(g, q_index(b, i, h, d), ds, round(key(0, b, j, h, d)));
            add(g, key_index(0, b, j, h, d), ds, round(qkv[q_index(b, i, h, d)]));
            add(g, key_index(1, b, j, h, d), rp, round(d_o[o_index(b, i, h, d)]));
          }
        }
      }
    });
    return g;
  }

 private:
  struct Rounded {
    double value, error;
  };
  struct Row {
    std::vector<double> p, relative;  ///< and its relative error
  };

  double round(double x) const { return operands == DType::bf16 ? double(to_f32(to_bf16(float(x)))) : x; }
  Rounded rounded(double x, double error) const {
    if (scores_are == Scores::near_bf16) return {x, error + 0x1p-8 * (std::abs(x) + error)};
    const double y = round(x);
    if (operands == DType::f32) return {y, error};
    return {y, std::max(std::abs(round(x + error) - y), std::abs(round(x - error) - y))};
  }
  /// One product of a sum over keys, or over the queries of a group's heads.
  void add(Reference& r, std::size_t at, const Rounded& a, double b) const {
    r.value[at] += a.value * b;
    r.bound[at] +=
        a.error * std::abs(b) +
        gamma(double(std::max(s.keys, s.time * (s.heads / s.kv_heads))) + 1) * std::abs(a.value * b);
  }

  Row scores(std::int64_t b, std::int64_t h, std::int64_t i) const {
    const double scale = 1 / std::sqrt(double(s.width));
    const std::int64_t length = lengths.empty() ? s.keys : lengths[std::size_t(b)];
    const std::int64_t seen =
        s.mask == AttentionMask::none
            ? std::min(length + keys_too_many, s.keys)
            : std::min({length + keys_too_many, s.first_position + i + 1 + keys_too_many, s.keys});
    std::vector<double> x, x_error;
    for (std::int64_t j = 0; j < seen; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t d = 0; d < s.width; ++d) {
        const double term = scale * round(qkv[q_index(b, i, h, d)]) * round(key(0, b, j, h, d));
        sum += term, size += std::abs(term);
      }
      x.push_back(sum), x_error.push_back(gamma(double(s.width) + 4) * size);  // scale has 3 roundings
    }
    const double top = *std::max_element(x.begin(), x.end());
    double total = 0, mean_error = 0, mean_distance = 0;
    Row row;
    for (const double v : x) total += row.p.emplace_back(std::exp(v - top));
    for (std::size_t j = 0; j < x.size(); ++j) {
      row.p[j] /= total;
      mean_error += row.p[j] * x_error[j], mean_distance += row.p[j] * (top - x[j]);
    }
    // Other devices go over 64 keys at a time, and multiply what they have by a power for each larger top, in
    // numbers and sums alike. Its exponents are parts of the distance to the last top.
    const double rescaling =
        device_is_cpu() ? 0 : 2 * u * (double(x.size()) / 64 + 1) * (elementary().exp + 1);
    // Forward divides by the sum; backward subtracts its logarithm, which is rounded twice.
    const double log_sum = top + std::log(total);
    const double common = mean_error + u * (mean_distance + std::abs(top) + 2 * std::abs(log_sum) + 8) +
                          gamma(double(x.size()) / 16 + 6) + rescaling;
    // With bf16 operands, exponentials may be powers of two: a rounded factor log2(e) at the scores and at
    // what is subtracted from them, products with it, and 2 ulp of the power.
    const double powers_of_two = operands == DType::bf16 ? 3 : 0;
    for (std::size_t j = 0; j < x.size(); ++j)
      row.relative.push_back(common + x_error[j] + u * (std::abs(x[j]) + top - x[j]) +
                             powers_of_two * u * (std::abs(x[j]) + std::abs(top) + std::abs(log_sum) + 2));
    return row;
  }

  template <class Body>
  void for_heads(const Body& body) const {
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h) body(b, h);
  }
  std::size_t q_index(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    const std::int64_t row = (s.heads + (s.own_keys ? 0 : 2 * s.kv_heads)) * s.width;
    return std::size_t((b * s.time + t) * row + h * s.width + d);
  }
  /// Of K (0) or V (1) of query head h, in qkv followed by kv.
  std::size_t key_index(std::int64_t part, std::int64_t b, std::int64_t t, std::int64_t h,
                        std::int64_t d) const {
    const std::int64_t place = (part * s.kv_heads + h / (s.heads / s.kv_heads)) * s.width + d;
    if (!s.own_keys) return q_index(b, t, 0, 0) + std::size_t(s.heads * s.width + place);
    return qkv.size() + std::size_t((b * s.room + t) * 2 * s.kv_heads * s.width + place);
  }
  double key(std::int64_t part, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    const std::size_t i = key_index(part, b, t, h, d);
    return i < qkv.size() ? qkv[i] : kv[i - qkv.size()];
  }
  std::size_t o_index(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return std::size_t(((b * s.time + t) * s.heads + h) * s.width + d);
  }
};

}  // namespace mxtape::test::reference
