#include "kernels/cpu/pointwise_loops.h"

#include "kernels/cpu/for_lanes.h"
#include "kernels/cpu/simd_math.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void add(float* y, const float* a, const float* b, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto l) { l.store(y + i, l.load(a + i) + l.load(b + i)); });
}

/// sigma(z) and 1 - sigma(z), each without cancellation.
struct Sigmoid {
  f32x16 value, complement;
};
MXT_LANES Sigmoid sigmoid(const f32x16& z) {
  const f32x16 e = exp(-z);
  const f32x16 value = 1.0f / (e + 1.0f);
  return {value, select(e < all(1.0f), e * value, 1.0f - value)};
}

// The tanh form of GELU: 0.5 x (1 + tanh(u)) = x sigma(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
constexpr float cubic = 0.044715f;
constexpr float two_slope = 1.5957691f;  // 2 sqrt(2 / pi)

MXT_LANES f32x16 twice_u(const f32x16& x) { return x * two_slope * (x * x * cubic + 1.0f); }

void gelu_tanh(float* y, const float* x, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto l) {
    const f32x16 in = l.load(x + i);
    l.store(y + i, in * sigmoid(twice_u(in)).value);
  });
}

void gelu_tanh_backward(float* dx, const float* dy, const float* x, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto l) {
    const f32x16 in = l.load(x + i);
    const Sigmoid s = sigmoid(twice_u(in));
    // sigma' is 0 in f32 long before |x| = 20: the slope of u may stop growing there, and never overflows.
    const f32x16 square = in * in;
    const f32x16 held = select(square > all(400.0f), all(400.0f), square);
    const f32x16 slope = (held * (3 * cubic) + 1.0f) * two_slope;
    l.store(dx + i, l.load(dy + i) * (s.value + s.value * s.complement * in * slope));
  });
}

/// Phi(x) and the density of the standard normal distribution times sqrt(2 pi).
struct Normal {
  f32x16 below, density;
};
MXT_LANES Normal normal(const f32x16& x) {
  const f32x16 density = exp(x * x * -0.5f);
  const f32x16 tail = normal_tail(magnitude(x), density);
  return {select(x < all(0.0f), tail, 1.0f - tail), density};
}

void gelu_erf(float* y, const float* x, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto l) {
    const f32x16 in = l.load(x + i);
    l.store(y + i, in * normal(in).below);
  });
}

void gelu_erf_backward(float* dx, const float* dy, const float* x, std::int64_t n) {
  constexpr float peak = 0.39894228f;  // 1 / sqrt(2 pi)
  for_lanes(n, [&](std::int64_t i, auto l) {
    const f32x16 in = l.load(x + i);
    const Normal phi = normal(in);
    l.store(dx + i, l.load(dy + i) * (phi.below + in * (phi.density * peak)));
  });
}

void dropout(float* y, const float* x, std::int64_t n, float p, const DrawKey& key, std::int64_t first) {
  constexpr int draws_per_call = 4;  // of 32 bits each
  for_lanes(n, [&](std::int64_t i, auto l) {
    // Calls that cover elements first + i ... + 15, wherever these start inside a call.
    const std::uint64_t begin = key.first_element + std::uint64_t(first + i);
    float uniform[lanes + draws_per_call];
    for (int call = 0; call <= lanes / draws_per_call; ++call) {
      const auto random = key.group(begin / draws_per_call + std::uint64_t(call));
      for (int k = 0; k < draws_per_call; ++k)
        uniform[draws_per_call * call + k] = float(random[std::size_t(k)] >> 8) * 0x1p-24f;
    }
    const f32x16 drawn = load(uniform + begin % draws_per_call);
    l.store(y + i, select(drawn >= all(p), l.load(x + i) / (1 - p), all(0.0f)));
  });
}

}  // namespace

extern const PointwiseLoops pointwise_loops{
    add, gelu_tanh, gelu_erf, gelu_tanh_backward, gelu_erf_backward, dropout};

}  // namespace mxtape::cpu::MXT_TIER
