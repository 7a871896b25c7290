#include "kernels/cpu/loops/row_loops.h"

#include "kernels/cpu/loops/softmax_lanes.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void norm(float* y, float* mean, float* rstd, const float* x, const float* gain, const float* bias,
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
void norm_backward(float* dx, float* dgain, float* dbias, const float* dy, const float* x, const float* mean,
                   const float* rstd, const float* gain, const float* others, std::int64_t rows,
                   std::int64_t C) {
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

void cross_entropy(float* losses, float* dlogits, const float* logits, const std::int32_t* targets,
                   std::int64_t rows, std::int64_t V, float each) {
  for (std::int64_t r = 0; r < rows; ++r, logits += V) {
    const float top = largest_of(logits, V);
    const float at_target = logits[targets[r]] - top;
    float* const out = dlogits ? dlogits + r * V : nullptr;
    const float total = exp_sum(out, logits, V, 1, top);
    losses[r] = float(__builtin_log(double(total)) - double(at_target));
    if (!out) continue;
    multiply(out, out, V, each / total);
    out[targets[r]] -= each;
  }
}

}  // namespace

extern const RowLoops row_loops{norm, norm_backward, cross_entropy};

}  // namespace mxtape::cpu::MXT_TIER
