#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/layer_norm_loops.h"
#include "kernels/cpu/softmax_loops.h"

namespace mxtape {
namespace {

/// Rows of one range: about 16384 numbers.
std::int64_t rows_at_a_time(std::int64_t cols) { return std::max<std::int64_t>(1, (1 << 14) / cols); }

}  // namespace

void CpuBackend::layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                            const Tensor& gain, const Tensor& bias, float eps) {
  const std::int64_t C = x.cols();
  const auto& loops = cpu::layer_norm_loops();
  parallel_for(x.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.forward(y.data() + begin * C, mean.data() + begin, rstd.data() + begin, x.data() + begin * C,
                  gain.data(), bias.data(), end - begin, C, eps);
  });
}

void CpuBackend::layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias,
                                     const Tensor& dy, const Tensor& x, const Tensor& mean,
                                     const Tensor& rstd, const Tensor& gain, Write gain_bias,
                                     const Tensor& others) {
  const std::int64_t C = x.cols(), rows = x.rows();
  const std::int64_t grain = std::max(rows_at_a_time(C), (rows + 63) / 64);  // at most 64 partial sums
  const std::int64_t ranges = (rows + grain - 1) / grain;
  // Each range of rows sums on its own; the ranges are then added in their order.
  const Tensor sums = empty({ranges, 2, C});
  const auto& loops = cpu::layer_norm_loops();
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    float* const partial = sums.data() + begin / grain * 2 * C;
    std::fill_n(partial, 2 * C, 0.0f);
    loops.backward(dx.data() + begin * C, partial, dbias ? partial + C : nullptr, dy.data() + begin * C,
                   x.data() + begin * C, mean.data() + begin, rstd.data() + begin, gain.data(),
                   others ? others.data() + begin * C : nullptr, end - begin, C);
  });
  auto collect = [&](const Tensor& total, std::int64_t offset) {
    if (gain_bias == Write::overwrite) std::fill_n(total.data(), C, 0.0f);
    for (std::int64_t range = 0; range < ranges; ++range) {
      const float* const partial = sums.data() + range * 2 * C + offset;
      for (std::int64_t c = 0; c < C; ++c) total.data()[c] += partial[c];
    }
  };
  collect(dgain, 0);
  if (dbias) collect(dbias, C);
}

void CpuBackend::softmax(const Tensor& y, const Tensor& x) {
  const std::int64_t C = x.cols();
  const auto& loops = cpu::softmax_loops();
  parallel_for(x.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.forward(y.data() + begin * C, x.data() + begin * C, end - begin, C);
  });
}

void CpuBackend::softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  const std::int64_t C = y.cols();
  const auto& loops = cpu::softmax_loops();
  parallel_for(y.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.backward(dx.data() + begin * C, dy.data() + begin * C, y.data() + begin * C, end - begin, C);
  });
}

void CpuBackend::cross_entropy(const Tensor& loss, const Tensor& losses, const Tensor& dlogits,
                               const Tensor& logits, const Tensor& targets, float scale) {
  const std::int64_t V = logits.cols(), rows = logits.rows();
  const auto& loops = cpu::softmax_loops();
  parallel_for(rows, rows_at_a_time(V), [&](std::int64_t begin, std::int64_t end) {
    loops.cross_entropy(losses.data() + begin, dlogits ? dlogits.data() + begin * V : nullptr,
                        logits.data() + begin * V, targets.data<std::int32_t>() + begin, end - begin, V,
                        scale / float(rows));
  });
  double total = 0;
  for (const float l : losses.host()) total += double(l);
  *loss.data() = float(total / double(rows));
}

}  // namespace mxtape
