#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/integer/dots.h"
#include "kernels/extents.h"
#include "kernels/gemm_codes.h"

namespace mxtape {
namespace {

using cpu::MatrixView;

MatrixView view(const Rounded& x) { return {x.elements.raw(), x.elements.dtype(), x.cols(), x.axis}; }

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
cpu::DotsSide side(const Rounded& x, const Tensor& scales, std::int64_t segments, std::int64_t line) {
  const std::int64_t codes = code_layout(x).padded_depth() * panel, of_scales = segments * panel;
  return {static_cast<const std::int8_t*>(x.elements.raw()) + line / panel * codes,
          scales.data() + line / panel * of_scales, codes, of_scales,
          integer_grid(x.by.quantizer.element)->largest};
}

}  // namespace

cpu::Piece cpu::cut(std::int64_t M, std::int64_t N, std::int64_t K, double most) {
  constexpr double work = 0x1p22;  // products that pay for handing out a piece and packing its sides again
  constexpr std::int64_t granule = 64;
  if (M <= most_few_rows) {  // a stream over the other side, for all threads to share
    constexpr std::int64_t numbers = 1 << 18;
    return {M, std::max(granule, numbers / std::max<std::int64_t>(K, 1) / granule * granule)};
  }
  const double wanted = std::min(most, double(M) * double(N) * double(K) / work);
  Piece piece{M, N};
  for (double count = 1; 2 * count <= wanted; count *= 2) {
    std::int64_t& longer = piece.rows >= piece.cols ? piece.rows : piece.cols;
    if (longer < 2 * granule) break;
    longer = ((longer + 1) / 2 + granule - 1) / granule * granule;
  }
  while (piece.rows < M && (M - 1) % piece.rows < most_few_rows) piece.rows += granule;
  return piece;
}

// Of codes: for each block of both sides the exact sum of the products of codes, times both scales, added in
// f32 from the first block to the last (integer/dots.h). Where the blocks of the two sides differ in length,
// sums are over their greatest common divisor. The bits depend on the operands alone: not on threads or
// instruction sets.
void CpuBackend::compute(const call::Gemm& call) {
  const auto [M, N, K] = extents_of(call);
  const GemmPath path = gemm_path(call.a.elements.dtype(), call.b.elements.dtype());
  last_gemm_.store(path, std::memory_order_relaxed);
  if (M == 0 || N == 0) return;
  const bool scaled = call.a.multiplier || call.b.multiplier;
  const float factor = (call.a.multiplier ? *call.a.multiplier.data() : 1.0f) *
                       (call.b.multiplier ? *call.b.multiplier.data() : 1.0f);
  // A piece packs its sides anew; of codes, lines of a large one leave the second cache between b's strips.
  const bool integer = path == GemmPath::integer;
  const double large = integer ? double(M) * double(N) * double(K) * 0x1p-26 : 0;
  const cpu::Piece piece =
      cpu::cut(M, N, K, std::max(threads() > 1 ? 2.0 * threads() : 1.0, std::min(16.0, large)));
  const std::int64_t down = (M + piece.rows - 1) / piece.rows, across = (N + piece.cols - 1) / piece.cols;
  const auto for_pieces = [&, M = M, N = N](const auto& multiply) {
    parallel_for(down * across, 1, [&](std::int64_t index, std::int64_t) {
      const std::int64_t m = index / across * piece.rows, n = index % across * piece.cols;
      multiply(m, n, std::min(piece.rows, M - m), std::min(piece.cols, N - n), call.c.data() + m * N + n,
               call.bias ? call.bias.data() + n : nullptr);
    });
  };

  if (integer) {
    const int segment = std::gcd(call.a.by.quantizer.block.along, call.b.by.quantizer.block.along);
    const std::int64_t segments = CodeLayout{M, K, segment}.blocks();
    const Tensor a_scales = scales_of_segments(*this, call.a, segment),
                 b_scales = scales_of_segments(*this, call.b, segment);
    return for_pieces([&, N = N](std::int64_t m, std::int64_t n, std::int64_t rows, std::int64_t cols,
                                 float* out, const float* bias) {
      cpu::multiply_codes({.a = side(call.a, a_scales, segments, m),
                           .b = side(call.b, b_scales, segments, n),
                           .rows = rows,
                           .cols = cols,
                           .depth = code_layout(call.a).padded_depth(),
                           .segment = segment,
                           .c = out,
                           .c_stride = N,
                           .accumulate = call.write == Write::accumulate,
                           .factor = scaled ? &factor : nullptr,
                           .bias = bias});
    });
  }

  const MatrixView av = view(call.a), bv = view(call.b);
  for_pieces([&, N = N, K = K](std::int64_t m, std::int64_t n, std::int64_t rows, std::int64_t cols,
                               float* out, const float* bias) {
    cpu::gemm_block(out, N, av.from(m), bv.from(n), rows, cols, K, call.write, bias,
                    scaled ? &factor : nullptr);
  });
}

}  // namespace mxtape
