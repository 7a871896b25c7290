#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/layer_norm_loops.h"
#include "kernels/cpu/loops/softmax_loops.h"
#include "kernels/cpu/row_sums.h"

namespace mxtape {
namespace {

using cpu::rows_at_a_time;

float* at(const Tensor& x, std::int64_t i) { return x ? x.data() + i : nullptr; }

}  // namespace

void CpuBackend::compute(const call::Norm& call) {
  call::check_norm(call.mean, call.bias);
  const std::int64_t C = call.x.cols();
  const auto& loops = cpu::layer_norm_loops();
  parallel_for(call.x.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.forward(call.y.data() + begin * C, at(call.mean, begin), call.rstd.data() + begin,
                  call.x.data() + begin * C, call.gain.data(), call.bias.data(), end - begin, C, call.eps);
  });
}

void CpuBackend::compute(const call::NormBackward& call) {
  call::check_norm(call.mean, call.dbias);
  const std::int64_t C = call.x.cols(), rows = call.x.rows();
  const cpu::RowSums sums(*this, rows, C, C);
  const auto& loops = cpu::layer_norm_loops();
  parallel_for(rows, sums.grain(), [&](std::int64_t begin, std::int64_t end) {
    float* const partial = sums.of_range(begin);
    loops.backward(call.dx.data() + begin * C, partial, call.dbias ? partial + C : nullptr,
                   call.dy.data() + begin * C, call.x.data() + begin * C, at(call.mean, begin),
                   call.rstd.data() + begin, call.gain.data(), at(call.others, begin * C), end - begin, C);
  });
  sums.collect(call.dgain, 0, call.write);
  if (call.dbias) sums.collect(call.dbias, 1, call.write);
}

void CpuBackend::compute(const call::Softmax& call) {
  const std::int64_t C = call.x.cols();
  const auto& loops = cpu::softmax_loops();
  parallel_for(call.x.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.forward(call.y.data() + begin * C, call.x.data() + begin * C, end - begin, C);
  });
}

void CpuBackend::compute(const call::SoftmaxBackward& call) {
  const std::int64_t C = call.y.cols();
  const auto& loops = cpu::softmax_loops();
  parallel_for(call.y.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.backward(call.dx.data() + begin * C, call.dy.data() + begin * C, call.y.data() + begin * C,
                   end - begin, C);
  });
}

void CpuBackend::compute(const call::CrossEntropy& call) {
  const std::int64_t V = call.logits.cols(), rows = call.logits.rows();
  const auto& loops = cpu::softmax_loops();
  parallel_for(rows, rows_at_a_time(V), [&](std::int64_t begin, std::int64_t end) {
    loops.cross_entropy(call.losses.data() + begin, call.dlogits ? call.dlogits.data() + begin * V : nullptr,
                        call.logits.data() + begin * V, call.targets.data<std::int32_t>() + begin,
                        end - begin, V, call.scale / float(rows));
  });
  double total = 0;
  for (const float l : call.losses.host()) total += double(l);
  *call.loss.data() = float(total / double(rows));
}

}  // namespace mxtape
