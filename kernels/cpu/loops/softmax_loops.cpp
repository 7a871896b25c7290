#include "kernels/cpu/loops/softmax_loops.h"

#include "kernels/cpu/loops/softmax_lanes.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void forward(float* y, const float* x, std::int64_t rows, std::int64_t C) {
  for (std::int64_t r = 0; r < rows; ++r, x += C, y += C)
    multiply(y, y, C, 1 / exp_sum(y, x, C, 1, largest_of(x, C)));
}

void backward(float* dx, const float* dy, const float* y, std::int64_t rows, std::int64_t C) {
  for (std::int64_t r = 0; r < rows; ++r, dx += C, dy += C, y += C) {
    const float dot = sum_lanes(C, [&](std::int64_t i, auto l) { return l.load(dy + i) * l.load(y + i); });
    for_lanes(C, [&](std::int64_t i, auto l) { l.store(dx + i, l.load(y + i) * (l.load(dy + i) - dot)); });
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

extern const SoftmaxLoops softmax_loops{forward, backward, cross_entropy};

}  // namespace mxtape::cpu::MXT_TIER
