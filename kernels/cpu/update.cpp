#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/update_loops.h"

namespace mxtape {
namespace {

constexpr std::int64_t grain = 1 << 14;

}  // namespace

void CpuBackend::compute(const call::Squares& call) {
  const auto squares = cpu::update_loops().squares;
  parallel_for(call.sums.count(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * call.unit, count = std::min(call.unit, call.x.count() - first);
      call.sums.data<double>()[i] = squares(call.x.data() + first, count);
    }
  });
}

void CpuBackend::compute(const call::ClipFactor& call) {
  struct Piece {
    const float* data;
    std::int64_t count;
    double squares;
  };
  std::vector<Piece> pieces;
  for (const Tensor& g : call.gradients)
    for (std::int64_t begin = 0; begin < g.count(); begin += grain)
      pieces.push_back({g.data() + begin, std::min(grain, g.count() - begin), 0});
  const auto squares = cpu::update_loops().squares;
  parallel_for(std::int64_t(pieces.size()), 4, [&](std::int64_t begin, std::int64_t end) {
    for (Piece* piece = pieces.data() + begin; piece != pieces.data() + end; ++piece)
      piece->squares = squares(piece->data, piece->count);
  });
  double total = 0;
  for (const Piece& piece : pieces) total += piece.squares;
  if (call.squares)
    for (const double sum : call.squares.host<double>()) total += sum;
  const float length = float(std::sqrt(total));
  *call.norm.data() = length;
  // min() alone would turn an infinite gradient into zeros elsewhere.
  if (!std::isfinite(length))
    *call.factor.data() = NAN;
  else
    *call.factor.data() = call.max_norm == 0 || length <= call.max_norm ? 1 : call.max_norm / length;
}

void CpuBackend::compute(const call::AdamW& call) {
  const auto loop = cpu::update_loops().adamw;
  const float clip = *call.factor.data();
  if (std::isnan(clip)) return;
  parallel_for(call.parameter.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    loop(call.parameter.data() + begin, call.m.data() + begin, call.v.data() + begin,
         call.gradient.data() + begin, end - begin, clip, call.rates.data(), call.step);
  });
  if (!call.copies.empty()) compute(call::Quantize{call.copies, call.parameter});
}

}  // namespace mxtape
