#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/layer_norm_loops.h"
#include "kernels/cpu/loops/softmax_loops.h"

namespace mxtape {
namespace {

/// Rows of one range: about 16384 numbers.
std::int64_t rows_at_a_time(std::int64_t cols) { return std::max<std::int64_t>(1, (1 << 14) / cols); }

float* at(const Tensor& x, std::int64_t i) { return x ? x.data() + i : nullptr; }

/// `mean` and `bias` are empty for an RMSNorm.
void norm(const auto& call, const Tensor& mean, const Tensor& bias) {
  const std::int64_t C = call.x.cols();
  const auto& loops = cpu::layer_norm_loops();
  parallel_for(call.x.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.forward(call.y.data() + begin * C, at(mean, begin), call.rstd.data() + begin,
                  call.x.data() + begin * C, call.gain.data(), bias.data(), end - begin, C, call.eps);
  });
}

void norm_backward(Backend& backend, const auto& call, const Tensor& mean, const Tensor& dbias) {
  const std::int64_t C = call.x.cols(), rows = call.x.rows();
  const std::int64_t grain = std::max(rows_at_a_time(C), (rows + 63) / 64);  // at most 64 partial sums
  const std::int64_t ranges = (rows + grain - 1) / grain;
  // Each range of rows sums on its own; the ranges are then added in their order.
  const Tensor sums = backend.empty({ranges, 2, C});
  const auto& loops = cpu::layer_norm_loops();
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    float* const partial = sums.data() + begin / grain * 2 * C;
    std::fill_n(partial, 2 * C, 0.0f);
    loops.backward(call.dx.data() + begin * C, partial, dbias ? partial + C : nullptr,
                   call.dy.data() + begin * C, call.x.data() + begin * C, at(mean, begin),
                   call.rstd.data() + begin, call.gain.data(), at(call.others, begin * C), end - begin, C);
  });
  auto collect = [&](const Tensor& total, std::int64_t offset) {
    if (call.write == Write::overwrite) std::fill_n(total.data(), C, 0.0f);
    for (std::int64_t range = 0; range < ranges; ++range) {
      const float* const partial = sums.data() + range * 2 * C + offset;
      for (std::int64_t c = 0; c < C; ++c) total.data()[c] += partial[c];
    }
  };
  collect(call.dgain, 0);
  if (dbias) collect(dbias, C);
}

}  // namespace

void CpuBackend::compute(const call::LayerNorm& call) { norm(call, call.mean, call.bias); }
void CpuBackend::compute(const call::LayerNormBackward& call) {
  norm_backward(*this, call, call.mean, call.dbias);
}
void CpuBackend::compute(const call::RmsNorm& call) { norm(call, {}, {}); }
void CpuBackend::compute(const call::RmsNormBackward& call) { norm_backward(*this, call, {}, {}); }

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
