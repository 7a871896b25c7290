#include "kernels/cpu/loops/row_loops.h"

#include "kernels/cpu/loops/for_lanes.h"
#include "kernels/cpu/loops/simd_math.h"

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

/// The largest of n > 0 numbers. A NaN may be passed over: the exponentials show it.
MXT_LANES float largest_of(const float* x, std::int64_t n) {
  f32x16 top = all(x[0]);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) top = max(top, load(x + i));
  float result = largest(top);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

/// Sum of e^(x - shift) over n numbers; the terms go to y (may be x) unless it is null. Every 1024 terms are
/// summed on their own first, so that long rows lose no more digits than short ones.
MXT_LANES float exp_sum(float* y, const float* x, std::int64_t n, float shift) {
  constexpr std::int64_t piece = 1024;
  float total = 0;
  for (std::int64_t begin = 0; begin < n; begin += piece) {
    const std::int64_t count = n - begin < piece ? n - begin : piece;
    total += sum_lanes(count, [&](std::int64_t i, auto l) {
      const f32x16 e = exp(l.load(x + begin + i) - shift);
      if (y) l.store(y + begin + i, e);
      return l.keep(e);
    });
  }
  return total;
}

void cross_entropy(float* losses, float* dlogits, const float* logits, const std::int32_t* targets,
                   std::int64_t rows, std::int64_t V, float each) {
  for (std::int64_t r = 0; r < rows; ++r, logits += V) {
    const float top = largest_of(logits, V);
    const float at_target = logits[targets[r]] - top;
    float* const out = dlogits ? dlogits + r * V : nullptr;
    const float total = exp_sum(out, logits, V, top);
    losses[r] = float(__builtin_log(double(total)) - double(at_target));
    if (!out) continue;
    const float factor = __builtin_isfinite(losses[r]) ? each / total : __builtin_nanf("");
    for_lanes(V, [&](std::int64_t i, auto l) { l.store(out + i, l.load(out + i) * factor); });
    out[targets[r]] -= each;
  }
}

}  // namespace

extern const RowLoops row_loops{norm, norm_backward, cross_entropy};

}  // namespace mxtape::cpu::MXT_TIER
