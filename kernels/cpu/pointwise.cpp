#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/pointwise_loops.h"

namespace mxtape {
namespace {

// 64 KiB per operand: long enough to hide the hand-out of a range, short enough for the cache that is next.
constexpr std::int64_t grain = 1 << 14;

}  // namespace

void CpuBackend::add(const Tensor& y, const Tensor& a, const Tensor& b) {
  parallel_for(y.count(), grain, [&, loops = &cpu::pointwise_loops()](std::int64_t begin, std::int64_t end) {
    loops->add(y.data() + begin, a.data() + begin, b.data() + begin, end - begin);
  });
}

void CpuBackend::gelu(const Tensor& y, const Tensor& x, Gelu form) {
  const auto& loops = cpu::pointwise_loops();
  const auto loop = form == Gelu::tanh ? loops.gelu_tanh : loops.gelu_erf;
  parallel_for(y.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    loop(y.data() + begin, x.data() + begin, end - begin);
  });
}

void CpuBackend::gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu form) {
  const auto& loops = cpu::pointwise_loops();
  const auto loop = form == Gelu::tanh ? loops.gelu_tanh_backward : loops.gelu_erf_backward;
  parallel_for(dx.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    loop(dx.data() + begin, dy.data() + begin, x.data() + begin, end - begin);
  });
}

void CpuBackend::dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) {
  parallel_for(y.count(), grain, [&, loops = &cpu::pointwise_loops()](std::int64_t begin, std::int64_t end) {
    loops->dropout(y.data() + begin, x.data() + begin, end - begin, p, key, begin);
  });
}

}  // namespace mxtape
