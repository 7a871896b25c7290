#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/closeness.h"
#include "tests/support/device.h"

namespace mxtape::test {

/// Numbers in double, and how far f32 kernels may be from each.
struct Reference {
  std::vector<double> value, bound;
  void push(double v, double b) { value.push_back(v), bound.push_back(b); }
};

/// Row kernels in double from f32 inputs, with bounds on the error of f32 kernels that add n numbers so that
/// each passes through at most depth(n) additions.
namespace reference {

using Floats = std::vector<float>;
inline constexpr double u = unit_roundoff;

/// CPU: four running sums of 16 lanes: n / 64 vectors each and up to 4 of the rest, then 2 + 4 to join them.
/// CUDA, which is less: eights in 3, a thread's eights in n / 8192, then up to 5 to join a warp's and, if
/// there are 2^k warps, which have more than 128 2^k numbers, k to join the block's.
inline double depth(std::size_t n) { return double(n) / 64 + 10; }
/// The same of kernels that sum rows of more than 1024 piece by piece.
inline double depth_of_pieces(std::size_t n) {
  return depth(std::min<std::size_t>(n, 1024)) + double(n) / 1024;
}

inline Reference layer_norm(const Floats& x, const Floats& gain, const Floats& bias, double eps) {
  const std::size_t C = gain.size();
  Reference y;
  for (std::size_t row = 0; row < x.size(); row += C) {
    double mean = 0, size = 0, variance = 0;
    for (std::size_t c = 0; c < C; ++c)
      mean += x[row + c] / double(C), size += std::abs(x[row + c]) / double(C);
    for (std::size_t c = 0; c < C; ++c) variance += (x[row + c] - mean) * (x[row + c] - mean) / double(C);
    const double mean_error = gamma(depth(C) + 1) * size, rstd = 1 / std::sqrt(variance + eps);
    double variance_error = gamma(depth(C) + 3) * variance;
    for (std::size_t c = 0; c < C; ++c) {
      const double d = std::abs(x[row + c] - mean), error = mean_error + u * d;
      variance_error += (2 * d * error + error * error) / double(C);
    }
    const double rstd_error = 0.5 * variance_error * rstd * rstd + 3 * u;  // relative
    for (std::size_t c = 0; c < C; ++c) {
      const double d = x[row + c] - mean, scaled = gain[c] * rstd, b = bias.empty() ? 0 : bias[c];
      y.push(scaled * d + b, std::abs(scaled) * (mean_error + std::abs(d) * (rstd_error + 3 * u)) +
                                 u * std::abs(scaled * d + b));
    }
  }
  return y;
}

struct LayerNormGradients {
  Reference dx, dgain, dbias;
};
inline LayerNormGradients layer_norm_backward(const Floats& dy, const Floats& x, const Floats& mean,
                                              const Floats& rstd, const Floats& gain) {
  const std::size_t C = gain.size(), rows = mean.size();
  LayerNormGradients r;
  std::vector<double> dgain(C), dgain_size(C), dbias(C), dbias_size(C);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto n = [&](std::size_t c) { return (double(x[row * C + c]) - mean[row]) * rstd[row]; };
    const auto g = [&](std::size_t c) { return double(gain[c]) * dy[row * C + c]; };
    double g_mean = 0, g_size = 0, gn_mean = 0, gn_size = 0;
    for (std::size_t c = 0; c < C; ++c) {
      g_mean += g(c) / double(C), g_size += std::abs(g(c)) / double(C);
      gn_mean += g(c) * n(c) / double(C), gn_size += std::abs(g(c) * n(c)) / double(C);
      dgain[c] += dy[row * C + c] * n(c), dgain_size[c] += std::abs(dy[row * C + c] * n(c));
      dbias[c] += dy[row * C + c], dbias_size[c] += std::abs(dy[row * C + c]);
    }
    for (std::size_t c = 0; c < C; ++c) {
      // 5 roundings to the result, and 2 inside n.
      const double sizes = std::abs(g(c)) + std::abs(g_mean) + std::abs(n(c) * gn_mean);
      r.dx.push(rstd[row] * (g(c) - g_mean - n(c) * gn_mean),
                std::abs(rstd[row]) * (gamma(7) * sizes + gamma(depth(C) + 2) * g_size +
                                       std::abs(n(c)) * gamma(depth(C) + 5) * gn_size));
    }
  }
  for (std::size_t c = 0; c < C; ++c) {
    r.dgain.push(dgain[c], gamma(double(rows) + 3) * dgain_size[c]);
    r.dbias.push(dbias[c], gamma(double(rows)) * dbias_size[c]);
  }
  return r;
}

/// y, and 1 / sqrt(<x^2> + eps) of each row.
struct RmsNormReference {
  Reference y, rstd;
};
inline RmsNormReference rms_norm(const Floats& x, const Floats& gain, double eps) {
  const std::size_t C = gain.size();
  RmsNormReference r;
  for (std::size_t row = 0; row < x.size(); row += C) {
    double squares = 0;
    for (std::size_t c = 0; c < C; ++c) squares += double(x[row + c]) * x[row + c] / double(C);
    const double rstd = 1 / std::sqrt(squares + eps);
    // The square, its additions and the division by C, all halved by the root, which is also of the sum with
    // eps; the root and its reciprocal. 3 for 2.5: half a rounding covers the terms of second order.
    const double relative = 0.5 * gamma(depth(C) + 2) * squares * rstd * rstd + 3 * u;
    r.rstd.push(rstd, relative * rstd);
    for (std::size_t c = 0; c < C; ++c) {
      const double y = gain[c] * (x[row + c] * rstd);
      r.y.push(y, (relative + gamma(2)) * std::abs(y));
    }
  }
  return r;
}

/// `left` is in dgain before, if anything is; n = x rstd.
struct RmsNormGradients {
  Reference dx, dgain;
};
inline RmsNormGradients rms_norm_backward(const Floats& dy, const Floats& x, const Floats& rstd,
                                          const Floats& gain, const Floats& left = {}) {
  const std::size_t C = gain.size(), rows = rstd.size();
  RmsNormGradients r;
  std::vector<double> dgain(C), size(C);
  for (std::size_t c = 0; c < C && !left.empty(); ++c) dgain[c] = left[c], size[c] = std::abs(left[c]);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto n = [&](std::size_t c) { return double(x[row * C + c]) * rstd[row]; };
    const auto g = [&](std::size_t c) { return double(gain[c]) * dy[row * C + c]; };
    double gn_mean = 0, gn_size = 0;
    for (std::size_t c = 0; c < C; ++c) {
      gn_mean += g(c) * n(c) / double(C), gn_size += std::abs(g(c) * n(c)) / double(C);
      dgain[c] += dy[row * C + c] * n(c), size[c] += std::abs(dy[row * C + c] * n(c));
    }
    for (std::size_t c = 0; c < C; ++c) {
      // Each term has its own roundings, the difference and the product with rstd: g has one; n <g n> has n,
      // the product, and in the mean g, n, g n, the additions and the division by C.
      r.dx.push(rstd[row] * (g(c) - n(c) * gn_mean),
                rstd[row] * (gamma(3) * std::abs(g(c)) + gamma(depth(C) + 8) * std::abs(n(c)) * gn_size));
    }
  }
  // n and its product with dy; the rows and what was there are added.
  for (std::size_t c = 0; c < C; ++c) r.dgain.push(dgain[c], gamma(double(rows) + 2) * size[c]);
  return r;
}

/// One row's e^(x - top) / sum and its relative errors: each exponential has the device's and the rounding of
/// x - top, the sum the mean of these and its own additions; then the reciprocal and the product.
struct SoftmaxRow {
  std::vector<double> p, relative;
  double log_sum = 0, sum_error = 0;  ///< log of the sum of e^x; relative error of the sum
  SoftmaxRow(const float* x, std::size_t n) {
    const double top = *std::max_element(x, x + n);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += p.emplace_back(std::exp(x[i] - top));
    log_sum = top + std::log(sum);
    for (std::size_t i = 0; i < n; ++i) {
      p[i] /= sum;
      relative.push_back(((1 + elementary().exp_argument) * (top - x[i]) + elementary().exp) * u);
      sum_error += p[i] * relative[i];
    }
    sum_error += gamma(depth_of_pieces(n));
    for (double& r : relative) r += sum_error + 2 * u;
  }
};
/// Exponentials below 2^-126 are 0.
inline constexpr double flushed = 0x1p-126;

struct CrossEntropyReference {
  Reference losses, dlogits;
};
inline CrossEntropyReference cross_entropy(const Floats& logits, const std::vector<std::int32_t>& targets,
                                           double scale) {
  const std::size_t rows = targets.size(), V = logits.size() / rows;
  CrossEntropyReference want;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const x = &logits[row * V];
    const SoftmaxRow r(x, V);
    const auto target = std::size_t(targets[row]);
    const double loss = r.log_sum - x[target], below_top = *std::max_element(x, x + V) - x[target];
    want.losses.push(loss, r.sum_error + u * (below_top + loss));
    const double each = scale / double(rows);
    for (std::size_t v = 0; v < V; ++v) {
      const double d = r.p[v] - (v == target);
      // `each` is rounded, and at the target the difference is.
      want.dlogits.push(each * d,
                        each * (r.p[v] * (r.relative[v] + u) + (v == target ? 2 * u : 0) + flushed));
    }
  }
  return want;
}

}  // namespace reference
}  // namespace mxtape::test
