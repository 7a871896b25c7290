#include "tests/conformance/products.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace mxtape::conformance {
namespace {

Tensor on_device(Backend& backend, const Matrix& m) {
  const Tensor t = backend.empty({m.rows, m.cols}, m.dtype);
  if (m.dtype == DType::f32) {
    backend.upload(t, m.values.data());
    return t;
  }
  std::vector<bf16> narrow;
  for (const float v : m.values) narrow.push_back(to_bf16(v));
  backend.upload(t, narrow.data());
  return t;
}

std::vector<float> on_host(Backend& backend, const Tensor& t) {
  std::vector<float> values(std::size_t(t.count()));
  if (t.dtype() == DType::f32) {
    backend.download(values.data(), t);
    return values;
  }
  std::vector<bf16> narrow(values.size());
  backend.download(narrow.data(), t);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_f32(narrow[i]);
  return values;
}

/// The exponent of the lowest bit set in v; the largest int for 0.
int lowest_bit(float v) {
  if (v == 0 || !std::isfinite(v)) return std::numeric_limits<int>::max() / 4;
  int exponent = 0;
  auto digits = std::int64_t(std::ldexp(std::frexp(std::fabs(double(v)), &exponent), 24));
  exponent -= 24;
  for (; (digits & 1) == 0; digits /= 2) ++exponent;
  return exponent;
}

/// The unit in the last place of a bf16 number.
double bf16_ulp(float v) { return std::ldexp(1.0, std::max(v == 0 ? -126 : std::ilogb(v), -126) - 7); }

}  // namespace

Matrix quantized(Backend& backend, const Matrix& x, std::int64_t batches, Axis axis, const Quantizer& q) {
  if (q.is_identity()) return x;
  Matrix y{x.rows, x.cols, {}, q.operand_dtype()};
  const std::int64_t rows = x.rows / batches;
  for (std::int64_t k = 0; k < batches; ++k) {
    const Tensor source = backend.empty({rows, x.cols});
    backend.upload(source, x.values.data() + k * rows * x.cols);
    const Rounded copy = with_room(backend, wanted(q, axis, source.shape()));
    backend.run(call::Quantize{{&copy, 1}, source});
    const auto part = on_host(backend, copy.elements);
    y.values.insert(y.values.end(), part.begin(), part.end());
  }
  return y;
}

Matrix rounded_to_bf16(Backend& backend, const Matrix& x, Rounding rounding) {
  Quantizer q = bf16_cast;
  q.rounding = rounding;
  Matrix y = quantized(backend, x, 1, Axis::row, q);
  y.dtype = DType::f32;  // as before: values that happen to be exact in bf16
  return y;
}

Product multiply(Backend& backend, const Matrix& a, Axis a_axis, const Matrix& b, Axis b_axis,
                 const std::vector<float>& bias) {
  const bool a_turned = a_axis == Axis::column, b_turned = b_axis == Axis::row;
  const std::int64_t M = a_turned ? a.cols : a.rows, K = a_turned ? a.rows : a.cols;
  const std::int64_t N = b_turned ? b.rows : b.cols;
  Tensor bias_tensor;
  if (!bias.empty()) {
    bias_tensor = backend.empty({N});
    backend.upload(bias_tensor, bias.data());
  }
  const Tensor c = backend.empty({M, N});
  backend.run(call::Gemm{c, unrounded(on_device(backend, a), a_axis),
                         unrounded(on_device(backend, b), b_axis), bias_tensor});
  Product p{{M, N, on_host(backend, c)}, std::vector<bool>(std::size_t(M * N))};

  const auto a_at = [&](std::int64_t m, std::int64_t k) {
    return std::size_t(a_turned ? k * M + m : m * K + k);
  };
  const auto b_at = [&](std::int64_t k, std::int64_t n) {
    return std::size_t(b_turned ? n * K + k : k * N + n);
  };
  std::vector<int> a_low, b_low;
  for (const float v : a.values) a_low.push_back(lowest_bit(v));
  for (const float v : b.values) b_low.push_back(lowest_bit(v));
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      double magnitude = 0;
      int low = std::numeric_limits<int>::max() / 4;
      for (std::int64_t k = 0; k < K; ++k) {
        magnitude += std::fabs(double(a.values[a_at(m, k)]) * b.values[b_at(k, n)]);
        low = std::min(low, a_low[a_at(m, k)] + b_low[b_at(k, n)]);
      }
      p.exact[std::size_t(m * N + n)] = magnitude == 0 || magnitude < std::ldexp(1.0, low + 24);
    }
  return p;
}

std::string compare_product(const Case& c, const std::string& field, const std::vector<float>& got,
                            const std::vector<bool>& exact) {
  const auto want = c.floats(field, got.size());
  const std::string& tolerance = c.text("tolerance");
  double bound = 0;
  const std::size_t at = tolerance.find("<= ");
  const bool by_ulp = at == std::string::npos;
  require(!by_ulp || tolerance.starts_with("bf16"), ExitCode::data, "conformance: case {}: tolerance '{}'",
          c.name, tolerance);
  if (!by_ulp) {
    float largest = 0;
    for (const float v : want) largest = std::max(largest, std::fabs(v));
    bound = std::stod(tolerance.substr(at + 3)) * double(largest);
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double allowed = exact[i] ? 0 : by_ulp ? bf16_ulp(want[i]) : bound;
    if (!(std::fabs(double(got[i]) - want[i]) <= allowed))
      return fmt::format("{}[{}] = {:a}, want {:a} within {:g}", field, i, got[i], want[i], allowed);
  }
  return {};
}

}  // namespace mxtape::conformance
