#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/update_loops.h"

namespace mxtape {
namespace {

constexpr std::int64_t grain = 1 << 14;

}  // namespace

void CpuBackend::clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                             float max_norm) {
  struct Piece {
    const float* data;
    std::int64_t count;
    double squares;
  };
  std::vector<Piece> pieces;
  for (const Tensor& g : gradients)
    for (std::int64_t begin = 0; begin < g.count(); begin += grain)
      pieces.push_back({g.data() + begin, std::min(grain, g.count() - begin), 0});
  const auto squares = cpu::update_loops().squares;
  parallel_for(std::int64_t(pieces.size()), 4, [&](std::int64_t begin, std::int64_t end) {
    for (Piece* piece = pieces.data() + begin; piece != pieces.data() + end; ++piece)
      piece->squares = squares(piece->data, piece->count);
  });
  double total = 0;
  for (const Piece& piece : pieces) total += piece.squares;
  const float length = float(std::sqrt(total));
  *norm.data() = length;
  // min() alone would turn an infinite gradient into zeros elsewhere.
  if (!std::isfinite(length))
    *factor.data() = NAN;
  else
    *factor.data() = max_norm == 0 || length <= max_norm ? 1 : max_norm / length;
}

void CpuBackend::adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
                       const Tensor& factor, const Tensor& rates, const AdamWStep& step,
                       std::span<QuantizedCopy> copies, const DrawKey& draws) {
  const auto loop = cpu::update_loops().adamw;
  const float clip = *factor.data();
  if (std::isnan(clip)) return;
  parallel_for(parameter.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    loop(parameter.data() + begin, m.data() + begin, v.data() + begin, gradient.data() + begin, end - begin,
         clip, rates.data(), step);
  });
  if (!copies.empty()) quantize(copies, parameter, draws);
}

}  // namespace mxtape
