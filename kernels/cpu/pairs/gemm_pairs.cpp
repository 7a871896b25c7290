#include "kernels/cpu/pairs/pair_dots.h"

#if defined(MXT_AMX)
namespace mxtape::cpu::MXT_TIER {
namespace {

/// So many lines of a side from `line` on, and so much of each from k on.
PairSource part(const PairSource& m, bool columns, std::int64_t line, std::int64_t k, std::int64_t lines,
                std::int64_t depth) {
  const std::int64_t row = columns ? k : line, column = columns ? line : k;
  return {static_cast<const std::uint16_t*>(m.x) + row * m.stride + column, m.stride, columns ? depth : lines,
          columns ? lines : depth, true};
}

MXT_LANES std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

}  // namespace

void gemm(const PairGemm& job) {
  const PairGemm g = job;  // which no store can change
  const std::int64_t M = g.a_columns ? g.a.width : g.a.rows, N = g.b_columns ? g.b.width : g.b.rows;
  const std::int64_t K = g.a_columns ? g.a.rows : g.a.width;
  const std::int64_t depth = K <= PairGemm::short_depth ? K : PairGemm::depth_at_once;
  constexpr std::int64_t lines_of_a = PairGemm::lines_at_once, granule = PairSource::granule;
  const std::int64_t lines_of_b =
      PairGemm::words_of_b / lanes / PairSource::granules(depth) / granule * granule;
  Word *const of_a = g.scratch, *const of_b = of_a + lines_of_a * PairGemm::short_depth / 2;
  const TileShapes shapes;
  for (std::int64_t n = 0; n < N; n += lines_of_b)
    for (std::int64_t k = 0; k < K; k += depth) {
      const std::int64_t cols = least(lines_of_b, N - n), sums = least(depth, K - k);
      const PairSource b = part(g.b, g.b_columns, n, k, cols, sums);
      pack(b, g.b_columns ? PairCopies{.columns = of_b} : PairCopies{.lines = of_b});
      for (std::int64_t m = 0; m < M; m += lines_of_a) {
        const std::int64_t rows = least(lines_of_a, M - m);
        const PairSource a = part(g.a, g.a_columns, m, k, rows, sums);
        pack(a, g.a_columns ? PairCopies{.turned = of_a} : PairCopies{.rows = of_a});
        const float* const bias = g.bias && k + depth >= K ? g.bias + n : nullptr;
        multiply({g.c + m * g.c_stride + n, g.c_stride, rows, cols, true, bias},
                 {of_a, g.a_columns ? a.column_words() : a.row_words()},
                 {of_b, g.b_columns ? b.panel_of_columns() : b.panel_of_rows()}, (sums + 1) / 2,
                 g.accumulate || k > 0);
      }
    }
}

}  // namespace mxtape::cpu::MXT_TIER
#endif
