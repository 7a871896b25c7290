#include "kernels/cpu/integer/gemm_codes.h"

#include <algorithm>
#include <numeric>

#include "core/parallel.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/integer/dots.h"
#include "kernels/extents.h"
#include "kernels/gemm_codes.h"

namespace mxtape::cpu {
namespace {

constexpr int panel = CodeLayout::panel;

/// The scales of each segment, where a block has several.
Tensor scales_of_segments(Backend& memory, const Rounded& x, int segment) {
  const CodeLayout l = code_layout(x);
  if (l.along == segment) return x.scales;
  const CodeLayout finer{l.lines, l.depth, segment};
  const Tensor y = memory.empty(finer.scales());
  for (std::int64_t p = 0; p < l.panels(); ++p)
    for (std::int64_t s = 0; s < finer.blocks(); ++s)
      std::copy_n(x.scales.data() + l.scale_at(p * panel, s * segment / l.along), panel,
                  y.data() + finer.scale_at(p * panel, s));
  return y;
}

/// The lines of x from `line` on, the first of a panel.
DotsSide side(const Rounded& x, const Tensor& scales, std::int64_t segments, std::int64_t line) {
  const std::int64_t codes = code_layout(x).padded_depth() * panel, of_scales = segments * panel;
  return {static_cast<const std::int8_t*>(x.elements.raw()) + line / panel * codes,
          scales.data() + line / panel * of_scales, codes, of_scales};
}

}  // namespace

void gemm_codes(Backend& memory, const call::Gemm& call) {
  const GemmExtents e = extents_of(call);
  if (e.M == 0 || e.N == 0) return;
  const int segment = std::gcd(call.a.by.quantizer.block.along, call.b.by.quantizer.block.along);
  const std::int64_t segments = CodeLayout{e.M, e.K, segment}.blocks();
  const Tensor a_scales = scales_of_segments(memory, call.a, segment),
               b_scales = scales_of_segments(memory, call.b, segment);
  const bool scaled = call.a.multiplier || call.b.multiplier;
  const float factor = (call.a.multiplier ? *call.a.multiplier.data() : 1.0f) *
                       (call.b.multiplier ? *call.b.multiplier.data() : 1.0f);
  const Piece piece = cut(e.M, e.N, e.K);
  const std::int64_t down = (e.M + piece.rows - 1) / piece.rows, across = (e.N + piece.cols - 1) / piece.cols;
  parallel_for(down * across, 1, [&](std::int64_t index, std::int64_t) {
    const std::int64_t m = index / across * piece.rows, n = index % across * piece.cols;
    multiply_codes({.a = side(call.a, a_scales, segments, m),
                    .b = side(call.b, b_scales, segments, n),
                    .rows = std::min(piece.rows, e.M - m),
                    .cols = std::min(piece.cols, e.N - n),
                    .depth = code_layout(call.a).padded_depth(),
                    .segment = segment,
                    .c = call.c.data() + m * e.N + n,
                    .c_stride = e.N,
                    .accumulate = call.write == Write::accumulate,
                    .factor = scaled ? &factor : nullptr,
                    .bias = call.bias ? call.bias.data() + n : nullptr});
  });
}

}  // namespace mxtape::cpu
