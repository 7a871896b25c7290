#include "kernels/cpu/loops/update_loops.h"

#include "kernels/calls_rows.h"
#include "kernels/cpu/loops/for_lanes.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

double squares(const float* x, std::int64_t n) {
  f64x16 total{};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const f64x16 value = load_double(x + i);
    total += value * value;
  }
  if (i < n) {
    float rest[lanes];
    store(rest, load_first(x + i, n - i));
    const f64x16 value = load_double(rest);
    total += value * value;
  }
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

extern const UpdateLoops update_loops{squares, adamw};

}  // namespace mxtape::cpu::MXT_TIER
