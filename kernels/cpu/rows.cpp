#include <algorithm>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/pointwise_loops.h"
#include "kernels/cpu/loops/row_loops.h"

namespace mxtape {
namespace {

/// Rows of one range: about 16384 numbers.
std::int64_t rows_at_a_time(std::int64_t cols) { return std::max<std::int64_t>(1, (1 << 14) / cols); }

/// Two sums [C] over `rows` rows of `cols` numbers. Each range of rows sums on its own, at most 64 of them;
/// the ranges are then added in their order. So the bits depend on the shape, and not on threads.
class RowSums {
 public:
  RowSums(Backend& backend, std::int64_t rows, std::int64_t cols, std::int64_t C)
      : C_(C),
        grain_(std::max(rows_at_a_time(cols), (rows + 63) / 64)),
        ranges_((rows + grain_ - 1) / grain_),
        sums_(backend.empty({ranges_, 2, C})) {}

  std::int64_t grain() const { return grain_; }  ///< rows of a range
  /// Two sums [C], zeros: of the range that begins at row `begin`.
  float* of_range(std::int64_t begin) const {
    float* const partial = sums_.data() + begin / grain_ * 2 * C_;
    std::fill_n(partial, 2 * C_, 0.0f);
    return partial;
  }
  /// total [C] of sum `which`, 0 or 1.
  void collect(const Tensor& total, std::int64_t which, Write write) const {
    if (write == Write::overwrite) std::fill_n(total.data(), C_, 0.0f);
    for (std::int64_t range = 0; range < ranges_; ++range) {
      const float* const partial = sums_.data() + (range * 2 + which) * C_;
      for (std::int64_t c = 0; c < C_; ++c) total.data()[c] += partial[c];
    }
  }

 private:
  std::int64_t C_, grain_, ranges_;
  Tensor sums_;
};

float* at(const Tensor& x, std::int64_t i) { return x ? x.data() + i : nullptr; }

/// Where the numbers of row r lie: H + 2 G heads of D.
struct RotaryRows {
  std::int64_t H, G, D, T, first_position;
  const float *cos, *sin;

  RotaryRows(const auto& call, const Tensor& x)
      : H(call.heads),
        G(call.kv_heads),
        D(x.cols() / (call.heads + 2 * call.kv_heads)),
        T(x.shape()[1]),
        first_position(call.first_position),
        cos(call.cos.data()),
        sin(call.sin.data()) {}

  std::int64_t width() const { return (H + 2 * G) * D; }
  /// Queries and keys of row r from x to y, and the values behind them.
  void turn(float* y, const float* x, std::int64_t r, bool back) const {
    const std::int64_t angles = (first_position + r % T) * (D / 2);
    cpu::pointwise_loops().turn(y, x, cos + angles, sin + angles, H + G, D, back);
  }
  void copy_values(float* y, const float* x) const {
    if (y != x) std::copy_n(x + (H + G) * D, G * D, y + (H + G) * D);
  }
};

}  // namespace

void CpuBackend::compute(const call::Norm& call) {
  call::check_norm(call.mean, call.bias);
  const std::int64_t C = call.x.cols();
  const auto& loops = cpu::row_loops();
  parallel_for(call.x.rows(), rows_at_a_time(C), [&](std::int64_t begin, std::int64_t end) {
    loops.norm(call.y.data() + begin * C, at(call.mean, begin), call.rstd.data() + begin,
               call.x.data() + begin * C, call.gain.data(), call.bias.data(), end - begin, C, call.eps);
  });
}

void CpuBackend::compute(const call::NormBackward& call) {
  call::check_norm(call.mean, call.dbias);
  const std::int64_t C = call.x.cols(), rows = call.x.rows();
  const RowSums sums(*this, rows, C, C);
  const auto& loops = cpu::row_loops();
  parallel_for(rows, sums.grain(), [&](std::int64_t begin, std::int64_t end) {
    float* const partial = sums.of_range(begin);
    loops.norm_backward(call.dx.data() + begin * C, partial, call.dbias ? partial + C : nullptr,
                        call.dy.data() + begin * C, call.x.data() + begin * C, at(call.mean, begin),
                        call.rstd.data() + begin, call.gain.data(), at(call.others, begin * C), end - begin,
                        C);
  });
  sums.collect(call.dgain, 0, call.write);
  if (call.dbias) sums.collect(call.dbias, 1, call.write);
}

void CpuBackend::compute(const call::CrossEntropy& call) {
  const std::int64_t V = call.logits.cols(), rows = call.logits.rows();
  const auto& loops = cpu::row_loops();
  parallel_for(rows, rows_at_a_time(V), [&](std::int64_t begin, std::int64_t end) {
    loops.cross_entropy(call.losses.data() + begin, call.dlogits ? call.dlogits.data() + begin * V : nullptr,
                        call.logits.data() + begin * V, call.targets.data<std::int32_t>() + begin,
                        end - begin, V, call.scale / float(rows));
  });
  double total = 0;
  for (const float l : call.losses.host()) total += double(l);
  *call.loss.data() = float(total / double(rows));
}

void CpuBackend::compute(const call::Rotary& call) {
  const RotaryRows rows(call, call.x);
  const std::int64_t H = rows.H, G = rows.G, D = rows.D, width = rows.width();
  const auto& norms = cpu::row_loops();
  parallel_for(call.x.rows(), rows_at_a_time(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const x = call.x.data() + r * width;
      float* const y = call.y.data() + r * width;
      if (call.rstd) {
        float* const rstd = call.rstd.data() + r * (H + G);
        norms.norm(y, nullptr, rstd, x, call.q_gain.data(), nullptr, H, D, call.eps);
        norms.norm(y + H * D, nullptr, rstd + H, x + H * D, call.k_gain.data(), nullptr, G, D, call.eps);
      }
      rows.turn(y, call.rstd ? y : x, r, false);
      rows.copy_values(y, x);
    }
  });
}

void CpuBackend::compute(const call::RotaryBackward& call) {
  const RotaryRows rows(call, call.dy);
  const std::int64_t H = rows.H, G = rows.G, D = rows.D, width = rows.width();
  const RowSums sums(*this, call.dy.rows(), width, D);
  const auto& norms = cpu::row_loops();
  parallel_for(call.dy.rows(), sums.grain(), [&](std::int64_t begin, std::int64_t end) {
    float* const dgains = sums.of_range(begin);
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const dy = call.dy.data() + r * width;
      float* const dx = call.dx.data() + r * width;
      rows.turn(dx, dy, r, true);
      rows.copy_values(dx, dy);
      if (!call.rstd) continue;
      const float *const x = call.x.data() + r * width, *const rstd = call.rstd.data() + r * (H + G);
      norms.norm_backward(dx, dgains, nullptr, dx, x, nullptr, rstd, call.q_gain.data(), nullptr, H, D);
      norms.norm_backward(dx + H * D, dgains + D, nullptr, dx + H * D, x + H * D, nullptr, rstd + H,
                          call.k_gain.data(), nullptr, G, D);
    }
  });
  if (call.dq_gain) sums.collect(call.dq_gain, 0, call.write), sums.collect(call.dk_gain, 1, call.write);
}

}  // namespace mxtape
