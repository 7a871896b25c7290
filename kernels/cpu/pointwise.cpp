#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/pointwise_loops.h"

namespace mxtape {
namespace {

// 64 KiB per operand: long enough to hide the hand-out of a range, short enough for the cache that is next.
constexpr std::int64_t grain = 1 << 14;

/// f(first row, rows) for ranges of rows of `cols` numbers.
void for_rows(std::int64_t rows, std::int64_t cols, const auto& f) {
  parallel_for(rows, std::max<std::int64_t>(1, grain / cols),
               [&](std::int64_t begin, std::int64_t end) { f(begin, end - begin); });
}

}  // namespace

void CpuBackend::compute(const call::Add& call) {
  const auto add = cpu::pointwise_loops().add;
  for_rows(call.y.count(), 1, [&](std::int64_t i, std::int64_t n) {
    add(call.y.data() + i, call.a.data() + i, call.b.data() + i, n);
  });
}

void CpuBackend::compute(const call::Gelu& call) {
  const auto& loops = cpu::pointwise_loops();
  const auto loop = call.form == Gelu::tanh ? loops.gelu_tanh : loops.gelu_erf;
  for_rows(call.y.count(), 1,
           [&](std::int64_t i, std::int64_t n) { loop(call.y.data() + i, call.x.data() + i, n); });
}

void CpuBackend::compute(const call::GeluBackward& call) {
  const auto& loops = cpu::pointwise_loops();
  const auto loop = call.form == Gelu::tanh ? loops.gelu_tanh_backward : loops.gelu_erf_backward;
  for_rows(call.dx.count(), 1, [&](std::int64_t i, std::int64_t n) {
    loop(call.dx.data() + i, call.dy.data() + i, call.x.data() + i, n);
  });
}

void CpuBackend::compute(const call::Swiglu& call) {
  const std::int64_t F = call.y.cols();
  const auto swiglu = cpu::pointwise_loops().swiglu;
  for_rows(call.y.rows(), F, [&](std::int64_t row, std::int64_t rows) {
    swiglu(call.y.data() + row * F, call.x.data() + row * 2 * F, rows, F);
  });
}

void CpuBackend::compute(const call::SwigluBackward& call) {
  const std::int64_t F = call.dy.cols();
  const auto backward = cpu::pointwise_loops().swiglu_backward;
  for_rows(call.dy.rows(), F, [&](std::int64_t row, std::int64_t rows) {
    backward(call.dx.data() + row * 2 * F, call.dy.data() + row * F, call.x.data() + row * 2 * F, rows, F);
  });
}

void CpuBackend::compute(const call::Dropout& call) {
  const auto dropout = cpu::pointwise_loops().dropout;
  for_rows(call.y.count(), 1, [&](std::int64_t i, std::int64_t n) {
    dropout(call.y.data() + i, call.x.data() + i, n, call.p, call.key, i);
  });
}

void CpuBackend::compute(const call::Embedding& call) {
  const std::int64_t C = call.y.cols(), T = call.tokens.cols();
  const auto add = cpu::pointwise_loops().add;
  for_rows(call.y.rows(), C, [&](std::int64_t first, std::int64_t rows) {
    for (std::int64_t r = first; r < first + rows; ++r) {
      const float* const row = call.table.data() + call.tokens.data<std::int32_t>()[r] * C;
      if (call.positions)
        add(call.y.data() + r * C, row, call.positions.data() + r % T * C, C);
      else
        std::copy_n(row, C, call.y.data() + r * C);
    }
  });
}

// A token may occur in any row, so ranges are of channels: every row of dtable is summed in the order of the
// rows, whatever the number of threads.
void CpuBackend::compute(const call::EmbeddingBackward& call) {
  const std::int64_t C = call.dy.cols(), T = call.tokens.cols(), rows = call.dy.rows();
  constexpr std::int64_t channels = 64;  // four cache lines
  const auto add = cpu::pointwise_loops().add;
  if (call.table == Write::overwrite) fill(call.dtable, 0);
  parallel_for(C, channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const sum = call.dtable.data() + call.tokens.data<std::int32_t>()[r] * C + begin;
      add(sum, sum, call.dy.data() + r * C + begin, end - begin);
    }
  });
  if (!call.dpositions) return;
  if (call.positions == Write::overwrite) fill(call.dpositions, 0);
  parallel_for(T, std::max<std::int64_t>(1, grain / C), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; r += T)
      add(call.dpositions.data() + begin * C, call.dpositions.data() + begin * C,
          call.dy.data() + (r + begin) * C, (end - begin) * C);
  });
}

void CpuBackend::compute(const call::Squares& call) {
  const auto squares = cpu::pointwise_loops().squares;
  parallel_for(call.sums.count(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * call.unit, count = std::min(call.unit, call.x.count() - first);
      call.sums.data<double>()[i] = squares(call.x.data() + first, count);
    }
  });
}

void CpuBackend::compute(const call::ClipFactor& call) {
  std::vector<std::span<const float>> pieces;
  for (const Tensor& g : call.gradients)
    for (std::int64_t begin = 0; begin < g.count(); begin += grain)
      pieces.emplace_back(g.data() + begin, std::size_t(std::min(grain, g.count() - begin)));
  std::vector<double> sums(pieces.size());
  const auto squares = cpu::pointwise_loops().squares;
  parallel_for(std::ssize(pieces), 4, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = std::size_t(begin); i < std::size_t(end); ++i)
      sums[i] = squares(pieces[i].data(), std::ssize(pieces[i]));
  });
  double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  if (call.squares)
    for (const double sum : call.squares.host<double>()) total += sum;
  const float length = float(std::sqrt(total));
  *call.norm.data() = length;
  // min() alone would turn an infinite gradient into zeros elsewhere.
  const float within = call.max_norm == 0 || length <= call.max_norm ? 1 : call.max_norm / length;
  *call.factor.data() = std::isfinite(length) ? within : NAN;
}

void CpuBackend::compute(const call::AdamW& call) {
  const auto loop = cpu::pointwise_loops().adamw;
  const float clip = *call.factor.data();
  if (std::isnan(clip)) return;
  parallel_for(call.parameter.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    loop(call.parameter.data() + begin, call.m.data() + begin, call.v.data() + begin,
         call.gradient.data() + begin, end - begin, clip, call.rates.data(), call.step);
  });
  if (!call.copies.empty()) compute(call::Quantize{call.copies, call.parameter});
}

}  // namespace mxtape
