#include "kernels/cpu/loops/for_gemm_parts.h"
#include "kernels/cpu/pairs/pair_dots.h"

#if defined(__AVX512BF16__)
namespace mxtape::cpu::MXT_TIER {
namespace {

// AMX does not cut short sums: c would come from memory once more.
#if defined(MXT_AMX)
constexpr std::int64_t words_of_b = PairGemm::words_of_b;
std::int64_t depth_at_once(const GemmJob& g) { return g.K <= PairGemm::longest ? g.K : 1024; }
#else
constexpr std::int64_t words_of_b = 1 << 17;
std::int64_t depth_at_once(const GemmJob& g) { return g.K < GemmJob::depth ? g.K : GemmJob::depth; }
#endif

/// So many lines of a side from `line` on, and so much of each from k on.
PairSource part(const GemmSide& m, std::int64_t line, std::int64_t k, std::int64_t lines_here,
                std::int64_t depth) {
  const std::int64_t row = m.columns ? k : line, column = m.columns ? line : k;
  return {static_cast<const std::uint16_t*>(m.x) + row * m.stride + column, m.stride,
          m.columns ? depth : lines_here, m.columns ? lines_here : depth, true};
}

}  // namespace

void gemm(const GemmJob& job, Word* scratch) {
  const GemmJob g = job;  // which no store can change
  constexpr std::int64_t granule = PairSource::granule;
  const std::int64_t depth = depth_at_once(g);
  const std::int64_t lines_of_b = words_of_b / lanes / PairSource::granules(depth) / granule * granule;
  Word *const of_a = scratch, *const of_b = of_a + PairGemm::lines_of_a * PairGemm::longest / 2;
  [[maybe_unused]] const TileShapes shapes;
  PairSource a, b;
  const auto pack_a = [&](std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t sums) {
    a = part(g.a, m, k, rows, sums);
    pack(a, g.a.columns ? PairCopies{.turned = of_a} : PairCopies{.rows = of_a});
  };
  const auto pack_b = [&](std::int64_t n, std::int64_t k, std::int64_t cols, std::int64_t sums) {
    b = part(g.b, n, k, cols, sums);
    pack(b, g.b.columns ? PairCopies{.columns = of_b} : PairCopies{.lines = of_b});
  };
  const auto multiply_parts = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t rows,
                                  std::int64_t cols, std::int64_t sums) {
    const float* const bias = g.bias && k + sums == g.K ? g.bias + n : nullptr;
    multiply({g.c + m * g.c_stride + n, g.c_stride, rows, cols, true, true, bias},
             {of_a, g.a.columns ? a.column_words() : a.row_words()},
             {of_b, g.b.columns ? b.panel_of_columns() : b.panel_of_rows()}, (sums + 1) / 2,
             g.accumulate || k > 0);
  };
  for_gemm_parts(g, PairGemm::lines_of_a, lines_of_b, depth, pack_a, pack_b, multiply_parts);
}

}  // namespace mxtape::cpu::MXT_TIER
#endif
