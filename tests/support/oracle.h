#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/calls_rows.h"

/// Every op's forward formula as in its paper, in nested loops, for any number type. With T = complex<double>
/// the derivative of f along v is imag(f(x + i h v)) / h: nothing is subtracted, so h = 1e-30 gives it to
/// double precision. Squire & Trapp 1998, SIAM Review 40(1), 110-112. Dimension letters as in autograd/ops.h.
namespace mxtape::oracle {

template <class T>
using Values = std::vector<T>;
using Complex = std::complex<double>;

inline double real(double x) { return x; }
inline double real(Complex x) { return x.real(); }
inline double erf(double x) { return std::erf(x); }
/// First order in the imaginary part, which is all that the complex step looks at.
inline Complex erf(Complex x) {
  const double slope = 2 / std::sqrt(std::numbers::pi) * std::exp(-x.real() * x.real());
  return {std::erf(x.real()), slope * x.imag()};
}

/// y [M, N] = x [M, K] w [N, K]^T + bias [N].
template <class T>
Values<T> linear(const Values<T>& x, const Values<T>& w, const Values<T>& bias, std::size_t N,
                 std::size_t K) {
  Values<T> y;
  for (std::size_t m = 0; m < x.size() / K; ++m)
    for (std::size_t n = 0; n < N; ++n) {
      T sum = bias.empty() ? T(0) : bias[n];
      for (std::size_t k = 0; k < K; ++k) sum += x[m * K + k] * w[n * K + k];
      y.push_back(sum);
    }
  return y;
}

template <class T>
Values<T> layer_norm(const Values<T>& x, const Values<T>& gain, const Values<T>& bias, double eps) {
  const std::size_t C = gain.size();
  Values<T> y;
  for (std::size_t r = 0; r < x.size() / C; ++r) {
    T mean = 0, variance = 0;
    for (std::size_t c = 0; c < C; ++c) mean += x[r * C + c] / double(C);
    for (std::size_t c = 0; c < C; ++c) variance += (x[r * C + c] - mean) * (x[r * C + c] - mean) / double(C);
    for (std::size_t c = 0; c < C; ++c)
      y.push_back(gain[c] * (x[r * C + c] - mean) / std::sqrt(variance + eps) +
                  (bias.empty() ? T(0) : bias[c]));
  }
  return y;
}

template <class T>
Values<T> rms_norm(const Values<T>& x, const Values<T>& gain, double eps) {
  const std::size_t C = gain.size();
  Values<T> y;
  for (std::size_t r = 0; r < x.size() / C; ++r) {
    T squares = 0;
    for (std::size_t c = 0; c < C; ++c) squares += x[r * C + c] * x[r * C + c];
    for (std::size_t c = 0; c < C; ++c)
      y.push_back(x[r * C + c] / std::sqrt(squares / double(C) + eps) * gain[c]);
  }
  return y;
}

template <class T>
Values<T> gelu(const Values<T>& x, Gelu form) {
  Values<T> y;
  for (const T& v : x)
    y.push_back(form == Gelu::erf
                    ? 0.5 * v * (1.0 + erf(v / std::numbers::sqrt2))
                    : 0.5 * v *
                          (1.0 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v))));
  return y;
}

/// y [rows, F] = silu(a) b of rows [a | b].
template <class T>
Values<T> swiglu(const Values<T>& x, std::size_t F) {
  Values<T> y;
  for (std::size_t r = 0; r < x.size() / (2 * F); ++r)
    for (std::size_t f = 0; f < F; ++f) {
      const T a = x[r * 2 * F + f], b = x[r * 2 * F + F + f];
      y.push_back(a / (1.0 + std::exp(-a)) * b);
    }
  return y;
}

/// Rows of H + 2 G heads [D] at positions r mod time + first. Queries and keys are RMS-normed if they have a
/// gain, and turned by cos, sin [positions, D / 2]: the pair (i, i + D / 2) is a complex number times e^(i
/// angle).
template <class T>
Values<T> rotary(const Values<T>& x, std::size_t H, std::size_t G, std::size_t time, std::size_t first,
                 const std::vector<float>& cos, const std::vector<float>& sin, const Values<T>& q_gain,
                 const Values<T>& k_gain, double eps, std::size_t D) {
  Values<T> y = x;
  for (std::size_t head = 0; head < x.size() / D; ++head) {
    const std::size_t in_row = head % (H + 2 * G), t = head / (H + 2 * G) % time + first;
    if (in_row >= H + G) continue;
    Values<T> h(x.begin() + std::ptrdiff_t(head * D), x.begin() + std::ptrdiff_t((head + 1) * D));
    const Values<T>& gain = in_row < H ? q_gain : k_gain;
    if (!gain.empty()) h = rms_norm(h, gain, eps);
    for (std::size_t i = 0; i < D / 2; ++i) {
      const double c = cos[t * (D / 2) + i], s = sin[t * (D / 2) + i];
      y[head * D + i] = h[i] * c - h[i + D / 2] * s;
      y[head * D + i + D / 2] = h[i + D / 2] * c + h[i] * s;
    }
  }
  return y;
}

template <class T>
Values<T> add(Values<T> a, const Values<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// exp(x - top) / sum over the first n of x.
template <class T>
Values<T> softmax_row(const T* x, std::size_t n) {
  double top = real(x[0]);
  for (std::size_t i = 1; i < n; ++i) top = std::max(top, real(x[i]));
  Values<T> y;
  T sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += y.emplace_back(std::exp(x[i] - top));
  for (T& v : y) v /= sum;
  return y;
}

template <class T>
Values<T> softmax(const Values<T>& x, std::size_t C) {
  Values<T> y;
  for (std::size_t r = 0; r < x.size() / C; ++r)
    for (const T& v : softmax_row(&x[r * C], C)) y.push_back(v);
  return y;
}

/// What attention reads besides its shape: of each sequence how many keys are seen (all if empty), and what
/// every P [B, H, T, keys] is multiplied by (1 if empty).
struct AttentionMasks {
  std::vector<std::int32_t> lengths{};
  std::vector<double> factors{};
};

/// o [B, T, H D] of qkv [B, T, (H + 2 G) D], or of q [B, T, H D] and kv [B, room, 2 G D].
template <class T>
Values<T> attention(const Values<T>& qkv, const AttentionShape& s, const Values<T>& kv = {},
                    const AttentionMasks& masks = {}) {
  const auto B = std::size_t(s.batch), time = std::size_t(s.time), H = std::size_t(s.heads),
             D = std::size_t(s.width), G = std::size_t(s.kv_heads), keys = std::size_t(s.keys),
             room = std::size_t(s.room), row = kv.empty() ? (H + 2 * G) * D : H * D;
  const auto key = [&](std::size_t part, std::size_t b, std::size_t g, std::size_t t, std::size_t d) {
    return kv.empty() ? qkv[(b * time + t) * row + (H + part * G + g) * D + d]
                      : kv[(b * room + t) * 2 * G * D + (part * G + g) * D + d];
  };
  Values<T> o(B * time * H * D);
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t h = 0; h < H; ++h) {
      const std::size_t g = h / (H / G);
      for (std::size_t i = 0; i < time; ++i) {
        std::size_t seen = masks.lengths.empty() ? keys : std::size_t(masks.lengths[b]);
        if (s.mask == AttentionMask::causal) seen = std::min(seen, std::size_t(s.first_position) + i + 1);
        Values<T> scores(seen);
        for (std::size_t j = 0; j < seen; ++j)
          for (std::size_t d = 0; d < D; ++d)
            scores[j] += qkv[(b * time + i) * row + h * D + d] * key(0, b, g, j, d) / std::sqrt(double(D));
        Values<T> p = softmax_row(scores.data(), seen);
        if (!masks.factors.empty())
          for (std::size_t j = 0; j < seen; ++j) p[j] *= masks.factors[((b * H + h) * time + i) * keys + j];
        for (std::size_t d = 0; d < D; ++d)
          for (std::size_t j = 0; j < seen; ++j)
            o[(b * time + i) * H * D + h * D + d] += p[j] * key(1, b, g, j, d);
      }
    }
  return o;
}

/// y [B, T, C] = table[token] + positions[t].
template <class T>
Values<T> embedding(const std::vector<std::int32_t>& tokens, std::size_t time, const Values<T>& table,
                    const Values<T>& positions, std::size_t C) {
  Values<T> y;
  for (std::size_t r = 0; r < tokens.size(); ++r)
    for (std::size_t c = 0; c < C; ++c)
      y.push_back(table[std::size_t(tokens[r]) * C + c] +
                  (positions.empty() ? T(0) : positions[r % time * C + c]));
  return y;
}

/// Mean over rows of -log softmax(logits)[target].
template <class T>
T cross_entropy(const Values<T>& logits, const std::vector<std::int32_t>& targets) {
  const std::size_t rows = targets.size(), V = logits.size() / rows;
  T sum = 0;
  for (std::size_t r = 0; r < rows; ++r)
    sum -= std::log(softmax_row(&logits[r * V], V)[std::size_t(targets[r])]);
  return sum / double(rows);
}

template <class T>
T dot(const Values<T>& y, const std::vector<float>& direction) {
  T sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * double(direction[i]);
  return sum;
}

inline constexpr double step = 1e-30;

inline Values<Complex> complex(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// d loss / d x[i] for every i; `loss` takes Values<Complex> and returns Complex.
template <class Loss>
std::vector<double> gradient(const std::vector<float>& x, const Loss& loss) {
  Values<Complex> z = complex(x);
  std::vector<double> result;
  for (std::size_t i = 0; i < z.size(); ++i) {
    z[i].imag(step);
    result.push_back(loss(z).imag() / step);
    z[i].imag(0);
  }
  return result;
}

}  // namespace mxtape::oracle
