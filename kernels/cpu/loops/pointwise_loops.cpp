#include "kernels/cpu/loops/pointwise_loops.h"

#include "kernels/cpu/loops/for_lanes.h"
#include "kernels/cpu/loops/simd_math.h"
#include "kernels/cpu/loops/simd_philox.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void add(float* y, const float* a, const float* b, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto l) { l.store(y + i, l.load(a + i) + l.load(b + i)); });
}

// The tanh form of GELU: 0.5 x (1 + tanh(u)) = x sigma(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3) and the
// logistic function sigma(z) = 1 / (1 + e^-z).
constexpr float cubic = 0.044715f;
constexpr float two_slope = 1.5957691f;        // 2 sqrt(2 / pi)
constexpr float two_slope_log2e = 2.3022082f;  // and log2(e), so that e^(-2 u) is a power of two

MXT_LANES f32x16 exp_minus_2u(const f32x16& x, const f32x16& square) {
  return exp2(x * -two_slope_log2e * (square * cubic + 1.0f));
}

void gelu_tanh(float* y, const float* x, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto l) {
    const f32x16 in = l.load(x + i);
    l.store(y + i, in / (exp_minus_2u(in, in * in) + 1.0f));
  });
}

void gelu_tanh_backward(float* dx, const float* dy, const float* x, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, auto l) {
    // Beyond 10 the derivative is 0 or 1 within 2^-118, and e^(2 u) stays below 2^126 up to there.
    const f32x16 x_i = l.load(x + i);
    const f32x16 below = select(x_i > all(10.0f), all(10.0f), x_i);
    const f32x16 in = select(below < all(-10.0f), all(-10.0f), below);
    const f32x16 square = in * in;
    const f32x16 e = exp_minus_2u(in, square);
    const f32x16 sigma = 1.0f / (e + 1.0f);
    const f32x16 slope = e * sigma * sigma;  // sigma (1 - sigma) without cancellation
    l.store(dx + i, l.load(dy + i) * (sigma + slope * in * ((square * (3 * cubic) + 1.0f) * two_slope)));
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

constexpr float log2_e = 1.442695f;

void swiglu(float* y, const float* x, std::int64_t rows, std::int64_t F) {
  for (std::int64_t r = 0; r < rows; ++r, y += F, x += 2 * F)
    for_lanes(F, [&](std::int64_t i, auto l) {
      const f32x16 a = l.load(x + i);
      l.store(y + i, a / (exp2(a * -log2_e) + 1.0f) * l.load(x + F + i));
    });
}

void swiglu_backward(float* dx, const float* dy, const float* x, std::int64_t rows, std::int64_t F) {
  for (std::int64_t r = 0; r < rows; ++r, dx += 2 * F, dy += F, x += 2 * F)
    for_lanes(F, [&](std::int64_t i, auto l) {
      // Below -87 both derivatives are 0 within 2^-118, and e^-a stays finite up to there.
      const f32x16 a_i = l.load(x + i);
      const f32x16 a = select(a_i < all(-87.0f), all(-87.0f), a_i);
      const f32x16 b = l.load(x + F + i), gradient = l.load(dy + i);
      const f32x16 e = exp2(a * -log2_e);
      const f32x16 s = 1.0f / (e + 1.0f);
      l.store(dx + i, gradient * b * (s * (a * (e * s) + 1.0f)));  // e s = 1 - s without cancellation
      l.store(dx + F + i, gradient * (a * s));
    });
}

void dropout(float* y, const float* x, std::int64_t n, float p, const DrawKey& key, std::int64_t first) {
  // Draws of 32 bits, four to a Philox call; the first element may lie inside a call.
  constexpr std::int64_t per_call = 4, elements = 256, calls_at_once = groups_at_once;
  const DrawKey own = key;  // which no store can change
  std::uint32_t draws[elements + per_call * (calls_at_once + 1)];
  for (std::int64_t start = 0; start < n; start += elements) {
    const std::uint64_t begin = own.first_element + std::uint64_t(first + start);
    for (std::int64_t call = 0; call <= elements / per_call; call += calls_at_once)
      philox_lanes(reinterpret_cast<std::uint16_t*>(draws + per_call * call), own,
                   begin / per_call + std::uint64_t(call));
    const std::uint32_t* const drawn = draws + begin % per_call;
    for_lanes(n - start < elements ? n - start : elements, [&](std::int64_t i, auto l) {
      const f32x16 uniform = to_floats(as_signed(load_as<u32x16>(drawn + i) >> 8)) * 0x1p-24f;
      l.store(y + start + i, select(uniform >= all(p), l.load(x + start + i) / (1 - p), all(0.0f)));
    });
  }
}

void turn(float* y, const float* x, const float* cos, const float* sin, std::int64_t heads, std::int64_t D,
          bool back) {
  const std::int64_t half = D / 2;
  const float sign = back ? -1.0f : 1.0f;
  for (std::int64_t h = 0; h < heads; ++h, x += D, y += D)
    for_lanes(half, [&](std::int64_t i, auto l) {
      const f32x16 c = l.load(cos + i), s = l.load(sin + i) * sign;
      const f32x16 first = l.load(x + i), second = l.load(x + half + i);
      l.store(y + i, first * c - second * s);
      l.store(y + half + i, second * c + first * s);
    });
}

double squares(const float* x, std::int64_t n) {
  f64x16 total{};
  for_lanes(n, [&](std::int64_t i, auto l) {
    const float* from = x + i;
    [[maybe_unused]] float rest[lanes];
    if constexpr (!std::is_same_v<decltype(l), Full>) store(rest, l.load(from)), from = rest;
    const f64x16 value = load_double(from);
    total += value * value;
  });
  return sum_double(total);
}

// p -= lr (m / c1) / (sqrt(v / c2) + eps) + lr decay p, with the factors that all elements share taken out.
void adamw(float* p, float* m, float* v, const float* g, std::int64_t n, float clip, const float* rates,
           const AdamWStep& step) {
  const float rate = rates[0] / rates[1];
  const float root = 1 / __builtin_sqrtf(rates[2]);
  const float decay = rates[0] * step.weight_decay;
  for_lanes(n, [&](std::int64_t i, auto l) {
    const f32x16 gradient = l.load(g + i) * clip;
    const f32x16 mean = l.load(m + i) * step.beta1 + gradient * (1 - step.beta1);
    const f32x16 square = l.load(v + i) * step.beta2 + gradient * gradient * (1 - step.beta2);
    const f32x16 old = l.load(p + i);
    l.store(m + i, mean);
    l.store(v + i, square);
    l.store(p + i, old - (mean * rate / (sqrt(square) * root + step.eps) + old * decay));
  });
}

}  // namespace

extern const PointwiseLoops pointwise_loops{
    add,  gelu_tanh, gelu_erf, gelu_tanh_backward, gelu_erf_backward, swiglu, swiglu_backward, dropout,
    turn, squares,   adamw};

}  // namespace mxtape::cpu::MXT_TIER
