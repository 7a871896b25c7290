#include <cmath>
#include <numbers>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {
namespace {

constexpr std::int64_t grain = 1 << 14;
constexpr float tanh_scale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float tanh_cubic = 0.044715f;

float gelu_value(float x, Gelu form) {
  if (form == Gelu::erf) return 0.5f * x * (1 + std::erf(x * float(std::numbers::sqrt2 / 2)));
  return 0.5f * x * (1 + std::tanh(tanh_scale * (x + tanh_cubic * x * x * x)));
}

float gelu_slope(float x, Gelu form) {
  if (form == Gelu::erf)
    return 0.5f * (1 + std::erf(x * float(std::numbers::sqrt2 / 2))) +
           x * 0.3989422804014327f * std::exp(-0.5f * x * x);
  const float t = std::tanh(tanh_scale * (x + tanh_cubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * tanh_scale * (1 + 3 * tanh_cubic * x * x);
}

}  // namespace

void CpuBackend::add(const Tensor& y, const Tensor& a, const Tensor& b) {
  parallel_for(y.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y.data()[i] = a.data()[i] + b.data()[i];
  });
}

void CpuBackend::gelu(const Tensor& y, const Tensor& x, Gelu form) {
  parallel_for(y.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y.data()[i] = gelu_value(x.data()[i], form);
  });
}

void CpuBackend::gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu form) {
  parallel_for(dx.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) dx.data()[i] = dy.data()[i] * gelu_slope(x.data()[i], form);
  });
}

void CpuBackend::dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) {
  parallel_for(y.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      y.data()[i] = key.uniform(std::uint64_t(i)) >= p ? x.data()[i] / (1 - p) : 0;
  });
}

}  // namespace mxtape
