#include "kernels/cpu/loops/gemm_loops.h"

#include "kernels/cpu/loops/for_gemm_parts.h"
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

// A block of sums, rows by panels of sixteen columns, stays in registers.
#if defined(__AVX512F__)
constexpr int block_rows = 8, most_panels = 3;
#elif defined(__AVX__) || defined(__aarch64__)
constexpr int block_rows = 6, most_panels = 1;
#else
constexpr int block_rows = 2, most_panels = 1;
#endif
constexpr int quad = 4;

MXT_LANES float wide_one(float x) { return x; }
MXT_LANES float wide_one(std::uint16_t x) { return __builtin_bit_cast(float, std::uint32_t{x} << 16); }
MXT_LANES i32x4 wide_quad(const float* p) { return load_as<i32x4>(p); }
MXT_LANES i32x4 wide_quad(const std::uint16_t* p) {
  typedef std::uint16_t halves __attribute__((vector_size(8)));
  return __builtin_convertvector(load_as<halves>(p), i32x4) << 16;
}

/// Rows of `width` numbers, as f32.
template <class T>
MXT_LANES void copy_rows(float* to, std::int64_t to_stride, const T* from, std::int64_t stride,
                         std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, to += to_stride, from += stride) {
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes) store(to + i, wide(from + i));
    for (; i < width; ++i) to[i] = wide_one(from[i]);
  }
}

/// The same with rows and columns exchanged.
template <class T>
MXT_LANES void copy_turned(float* to, std::int64_t to_stride, const T* from, std::int64_t stride,
                           std::int64_t rows, std::int64_t width) {
  std::int64_t r = 0;
  for (; r + quad <= rows; r += quad) {
    std::int64_t i = 0;
    for (; i + quad <= width; i += quad) {
      i32x4 block[quad];
      for (int k = 0; k < quad; ++k) block[k] = wide_quad(from + (r + k) * stride + i);
      transpose(block);
      for (int k = 0; k < quad; ++k) store_as(to + (i + k) * to_stride + r, block[k]);
    }
    for (; i < width; ++i)
      for (int k = 0; k < quad; ++k) to[i * to_stride + r + k] = wide_one(from[(r + k) * stride + i]);
  }
  for (; r < rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) to[i * to_stride + r] = wide_one(from[r * stride + i]);
}

/// Lines from `line` on, `depth` numbers of each from k on: as rows, or turned, side by side.
template <class T>
void pack_as(float* to, std::int64_t to_stride, const GemmSide& side, bool turned, std::int64_t line,
             std::int64_t k, std::int64_t lines_here, std::int64_t depth) {
  const T* const x = static_cast<const T*>(side.x);
  const T* const from = side.columns ? x + k * side.stride + line : x + line * side.stride + k;
  const std::int64_t rows = side.columns ? depth : lines_here, width = side.columns ? lines_here : depth;
  side.columns == turned ? copy_rows(to, to_stride, from, side.stride, rows, width)
                         : copy_turned(to, to_stride, from, side.stride, rows, width);
}
void pack(float* to, std::int64_t to_stride, const GemmSide& side, bool turned, std::int64_t line,
          std::int64_t k, std::int64_t lines_here, std::int64_t depth) {
  (side.narrow ? pack_as<std::uint16_t> : pack_as<float>)(to, to_stride, side, turned, line, k, lines_here,
                                                          depth);
}

/// Where a block of sums goes.
struct Target {
  float* c;
  std::int64_t stride, rows, cols;
  const float* bias;
  bool accumulate;
};

/// Panels of `left` columns' first block.
MXT_LANES int panels_of(std::int64_t left) {
  const std::int64_t panels = (left + lanes - 1) / lanes;
  return panels <= most_panels       ? int(panels)
         : panels == most_panels + 1 ? (most_panels + 1) / 2
                                     : most_panels;
}

/// Lines of a are a_stride apart; those of b lie side by side.
template <int panels>
MXT_LANES void multiply_block(const Target& to, const float* a, std::int64_t a_stride, const float* b,
                              std::int64_t depth) {
  for (int i = 0; i < block_rows && i < to.rows; ++i)
    for (int p = 0; p < panels; ++p) __builtin_prefetch(to.c + i * to.stride + p * lanes, 1);
  f32x16 sums[block_rows][panels] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    f32x16 of_b[panels];
    for (int p = 0; p < panels; ++p) of_b[p] = load(b + (k * panels + p) * lanes);
    for (int i = 0; i < block_rows; ++i) {
      const f32x16 of_a = all(a[i * a_stride + k]);
      for (int p = 0; p < panels; ++p) sums[i][p] = multiply_add(of_a, of_b[p], sums[i][p]);
    }
  }
  for (int i = 0; i < block_rows; ++i)
    for (int p = 0; p < panels && i < to.rows; ++p) {
      float* const c = to.c + i * to.stride + p * lanes;
      const std::int64_t there = to.cols - p * lanes;
      sums[i][p] += 0.0f;  // of -0, too
      if (to.accumulate) sums[i][p] = load_there(c, there) + sums[i][p];
      if (to.bias) sums[i][p] += load_there(to.bias + p * lanes, there);
      store_there(c, sums[i][p], there);
    }
}

void multiply(const GemmJob& job, float* scratch) {
  const GemmJob g = job;  // which no store can change
  const std::int64_t depth = g.K < GemmJob::depth ? g.K : GemmJob::depth, stride = depth + GemmLoops::padding;
  constexpr std::int64_t block_cols = most_panels * lanes;
  const std::int64_t lines_of_b = GemmLoops::numbers_of_b / depth / block_cols * block_cols;
  float *const of_a = scratch, *const of_b = scratch + GemmLoops::of_a;
  const bool in_place = !g.a.narrow && !g.a.columns;
  const auto pack_a = [&](std::int64_t m, std::int64_t k, std::int64_t rows, std::int64_t sums) {
    // In place, of a block that is not whole alone: behind it there may be nothing.
    const std::int64_t first_row = in_place ? rows / block_rows * block_rows : 0;
    pack(of_a + first_row * stride, stride, g.a, false, m + first_row, k, rows - first_row, sums);
  };
  const auto pack_b = [&](std::int64_t n, std::int64_t k, std::int64_t cols, std::int64_t sums) {
    for (std::int64_t col = 0; col < cols;) {
      const int panels = panels_of(cols - col);
      for (int p = 0; p < panels; ++p) {
        const std::int64_t line = col + p * lanes, left = cols - line;
        pack(of_b + col * sums + p * lanes, panels * lanes, g.b, true, n + line, k,
             left < lanes ? left : lanes, sums);
      }
      col += panels * lanes;
    }
  };
  const auto multiply_parts = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t rows,
                                  std::int64_t cols, std::int64_t sums) {
    const bool last = k + sums == g.K;
    for (std::int64_t col = 0; col < cols;) {
      const int panels = panels_of(cols - col);
      for (std::int64_t row = 0; row < rows; row += block_rows) {
        const Target to{
            g.c + (m + row) * g.c_stride + n + col,      g.c_stride,           rows - row, cols - col,
            g.bias && last ? g.bias + n + col : nullptr, g.accumulate || k > 0};
        const bool there = in_place && rows - row >= block_rows;
        const std::int64_t a_stride = there ? g.a.stride : stride;
        const float* const a =
            there ? static_cast<const float*>(g.a.x) + (m + row) * a_stride + k : of_a + row * stride;
        const float* const b = of_b + col * sums;
        if constexpr (most_panels == 3) {
          if (panels == 3) multiply_block<3>(to, a, a_stride, b, sums);
          if (panels == 2) multiply_block<2>(to, a, a_stride, b, sums);
        }
        if (panels == 1) multiply_block<1>(to, a, a_stride, b, sums);
      }
      col += panels * lanes;
    }
  };
  for_gemm_parts(g, GemmLoops::lines_of_a, lines_of_b, depth, pack_a, pack_b, multiply_parts);
}

}  // namespace

extern const GemmLoops gemm_loops{multiply};

}  // namespace mxtape::cpu::MXT_TIER
