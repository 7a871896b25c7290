#pragma once
// With quantizers on, gradients are not derivatives (straight-through): the layer is held against the
// composition quantize-then-multiply written out from NUMERICS' table of slots, axes and draws.
#include <utility>

#include "autograd/ops.h"
#include "autograd/round.h"
#include "autograd/slots.h"
#include "formats/quantize.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/print.h"
#include "tests/support/probe.h"

namespace mxtape::test {

inline constexpr std::int64_t M = 70, K = 48, N = 40;  // ragged blocks of 32 along every axis
inline constexpr std::uint32_t id = 192;
inline constexpr PassKey pass{.seed = 11, .step = 6, .first_row = 140};
inline constexpr std::uint64_t version = 4;

/// A matrix of products with the sums of their magnitudes.
struct Product {
  std::vector<double> values, magnitudes;
  std::vector<double> bounds(std::int64_t terms) const {
    std::vector<double> b;
    for (double m : magnitudes) b.push_back(dot_bound(double(terms), m));
    return b;
  }
};

/// c[i, j] = sum over k of a(i, k) b(k, j).
template <class A, class B>
Product multiply(std::int64_t rows, std::int64_t cols, std::int64_t terms, const A& a, const B& b) {
  Product c;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < terms; ++k)
        sum += a(i, k) * b(k, j), magnitude += std::abs(a(i, k) * b(k, j));
      c.values.push_back(sum);
      c.magnitudes.push_back(magnitude);
    }
  return c;
}

struct Data {
  std::vector<float> x = normals(M * K, 1), w = normals(N * K, 2), dy = normals(M * N, 3);
};

struct Results {
  Product y, dx, dw;
};

inline std::vector<double> rounded(const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                                   Axis axis, const Quantizer& q, const DrawKey& draws) {
  std::vector<float> y(x.size());
  const double multiplier = quantize_reference(y.data(), x.data(), rows, cols, axis, q, draws);
  std::vector<double> values;
  for (float v : y) values.push_back(v * multiplier);
  return values;
}

inline Results composed(const Data& d, const LinearQuant& q) {
  const DrawKey x_draws{pass.seed, Purpose::rounding, id, pass.step, pass.first_row * K};
  const DrawKey w_draws{pass.seed, Purpose::rounding, id + 1, std::uint32_t(version), 0};
  const DrawKey dy_draws{pass.seed, Purpose::rounding, id + 2, pass.step, pass.first_row * N};
  const auto at = [](const std::vector<double>& m, std::int64_t cols) {
    return [&m, cols](std::int64_t i, std::int64_t j) { return m[std::size_t(i * cols + j)]; };
  };
  const auto flipped = [](auto m) { return [m](std::int64_t i, std::int64_t j) { return m(j, i); }; };

  const auto fprop_x = rounded(d.x, M, K, Axis::row, q.fprop_x, x_draws);
  const auto fprop_w = rounded(d.w, N, K, Axis::row, q.fprop_w, w_draws);
  const auto dgrad_dy = rounded(d.dy, M, N, Axis::row, q.dgrad_dy, dy_draws);
  const auto dgrad_w = rounded(d.w, N, K, Axis::column, q.dgrad_w, w_draws);
  const auto wgrad_dy = rounded(d.dy, M, N, Axis::column, q.wgrad_dy, dy_draws);
  const auto wgrad_x = rounded(d.x, M, K, Axis::column, q.wgrad_x, x_draws);
  return {multiply(M, N, K, at(fprop_x, K), flipped(at(fprop_w, K))),
          multiply(M, K, N, at(dgrad_dy, N), at(dgrad_w, K)),
          multiply(N, K, M, flipped(at(wgrad_dy, N)), at(wgrad_x, K))};
}

struct Computed {
  std::vector<float> y, dx, dw;
};

inline Computed computed(const Data& d, const LinearQuant& q, PassKey key = pass,
                         std::uint64_t weight = version, Backend& on = device()) {
  Parameter w{.name = "w", .value = upload(on, {N, K}, d.w), .version = weight};
  Tape tape(on, Tape::Mode::training, key);
  const Var x = tape.input(upload(on, {M, K}, d.x));
  const Var y = ops::linear(tape, x, w, nullptr, q, id);
  tape.backward(dot(tape, y, d.dy));
  return {download(on, y.value), download(on, tape.gradient(x)), download(on, w.grad)};
}

inline LinearQuant everywhere(const Quantizer& q) { return {q, q, q, q, q, q, {}, {}, {}}; }

inline Quantizer stochastic(Quantizer q) {
  q.rounding = Rounding::stochastic;
  return q;
}

/// Computed equals composed.
inline bool agree(const Computed& got, const Results& want) {
  return within(got.y, want.y.values, want.y.bounds(K + 3)) &&
         within(got.dx, want.dx.values, want.dx.bounds(N + 3)) &&
         within(got.dw, want.dw.values, want.dw.bounds(M + 3));
}

}  // namespace mxtape::test
