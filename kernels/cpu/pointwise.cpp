#include <algorithm>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/pointwise_loops.h"

namespace mxtape {
namespace {

// 64 KiB per operand: long enough to hide the hand-out of a range, short enough for the cache that is next.
constexpr std::int64_t grain = 1 << 14;

}  // namespace

void CpuBackend::compute(const call::Add& call) {
  parallel_for(call.y.count(), grain,
               [&, loops = &cpu::pointwise_loops()](std::int64_t begin, std::int64_t end) {
                 loops->add(call.y.data() + begin, call.a.data() + begin, call.b.data() + begin, end - begin);
               });
}

void CpuBackend::compute(const call::Gelu& call) {
  const auto& loops = cpu::pointwise_loops();
  const auto loop = call.form == Gelu::tanh ? loops.gelu_tanh : loops.gelu_erf;
  parallel_for(call.y.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    loop(call.y.data() + begin, call.x.data() + begin, end - begin);
  });
}

void CpuBackend::compute(const call::GeluBackward& call) {
  const auto& loops = cpu::pointwise_loops();
  const auto loop = call.form == Gelu::tanh ? loops.gelu_tanh_backward : loops.gelu_erf_backward;
  parallel_for(call.dx.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    loop(call.dx.data() + begin, call.dy.data() + begin, call.x.data() + begin, end - begin);
  });
}

void CpuBackend::compute(const call::Swiglu& call) {
  const std::int64_t F = call.y.cols();
  parallel_for(call.y.rows(), std::max<std::int64_t>(1, grain / F),
               [&, loops = &cpu::pointwise_loops()](std::int64_t begin, std::int64_t end) {
                 loops->swiglu(call.y.data() + begin * F, call.x.data() + begin * 2 * F, end - begin, F);
               });
}

void CpuBackend::compute(const call::SwigluBackward& call) {
  const std::int64_t F = call.dy.cols();
  parallel_for(call.dy.rows(), std::max<std::int64_t>(1, grain / F),
               [&, loops = &cpu::pointwise_loops()](std::int64_t begin, std::int64_t end) {
                 loops->swiglu_backward(call.dx.data() + begin * 2 * F, call.dy.data() + begin * F,
                                        call.x.data() + begin * 2 * F, end - begin, F);
               });
}

void CpuBackend::compute(const call::Dropout& call) {
  parallel_for(
      call.y.count(), grain, [&, loops = &cpu::pointwise_loops()](std::int64_t begin, std::int64_t end) {
        loops->dropout(call.y.data() + begin, call.x.data() + begin, end - begin, call.p, call.key, begin);
      });
}

}  // namespace mxtape
