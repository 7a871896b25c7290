#include "kernels/cpu/loops/layer_norm_loops.h"

#include "kernels/cpu/loops/for_lanes.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void forward(float* y, float* mean, float* rstd, const float* x, const float* gain, const float* bias,
             std::int64_t rows, std::int64_t C, float eps) {
  for (std::int64_t r = 0; r < rows; ++r, x += C, y += C) {
    float m = 0;
    if (mean) m = sum_lanes(C, [&](std::int64_t i, auto l) { return l.load(x + i); }) / float(C);
    // From the deviations, not from the mean of squares, which cancels when the mean is large.
    const float squares = sum_lanes(C, [&](std::int64_t i, auto l) {
      const f32x16 deviation = l.keep(l.load(x + i) - m);
      return deviation * deviation;
    });
    const float s = 1 / __builtin_sqrtf(squares / float(C) + eps);
    if (mean) mean[r] = m;
    rstd[r] = s;
    for_lanes(C, [&](std::int64_t i, auto l) {
      const f32x16 scaled = l.load(gain + i) * ((l.load(x + i) - m) * s);
      l.store(y + i, bias ? scaled + l.load(bias + i) : scaled);
    });
  }
}

// With g = gain dy, n the normalised x and <> the mean over C:  dx = rstd (g - <g> - n <g n>).
// An RMSNorm's dx has no <g>.
void backward(float* dx, float* dgain, float* dbias, const float* dy, const float* x, const float* mean,
              const float* rstd, const float* gain, const float* others, std::int64_t rows, std::int64_t C) {
  for (std::int64_t r = 0; r < rows; ++r, x += C, dy += C, dx += C) {
    const float m = mean ? mean[r] : 0.0f, s = rstd[r];
    float g_mean = 0;
    if (mean)
      g_mean =
          sum_lanes(C, [&](std::int64_t i, auto l) { return l.load(gain + i) * l.load(dy + i); }) / float(C);
    const float gn_mean = sum_lanes(C,
                                    [&](std::int64_t i, auto l) {
                                      const f32x16 n = (l.load(x + i) - m) * s;
                                      return l.load(gain + i) * l.load(dy + i) * n;
                                    }) /
                          float(C);
    for_lanes(C, [&](std::int64_t i, auto l) {
      const f32x16 n = (l.load(x + i) - m) * s;
      const f32x16 dy_i = l.load(dy + i);
      l.store(dgain + i, l.load(dgain + i) + dy_i * n);
      if (dbias) l.store(dbias + i, l.load(dbias + i) + dy_i);
      const f32x16 own = (l.load(gain + i) * dy_i - g_mean - n * gn_mean) * s;
      l.store(dx + i, others ? l.load(others + i) + own : own);
    });
    if (others) others += C;
  }
}

}  // namespace

extern const LayerNormLoops layer_norm_loops{forward, backward};

}  // namespace mxtape::cpu::MXT_TIER
