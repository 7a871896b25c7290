#pragma once
// For *_pairs.cpp only: sums of products of bf16, two at a time, in blocks that stay in registers.
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/pairs/pairs.h"

#if defined(__AVX512BF16__)  // as those files are compiled
namespace mxtape::cpu::MXT_TIER {

// A block of sums is so many lines of a high and up to so many panels of b wide: 24 registers of 32, and
// enough that no sum waits for the one before it.
inline constexpr int block_lines = 8, most_panels = 3;

MXT_LANES f32x16 add_pair_products(const f32x16& sum, const i32x16& a, const i32x16& b) {
  return (f32x16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/// Two vectors, each number rounded to bf16: as pairs (a[i], b[i]) of sixteen words ...
MXT_LANES i32x16 pairs_of(const f32x16& a, const f32x16& b) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return (i32x16)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
}
/// ... and one behind the other.
MXT_LANES i32x16 joined(const f32x16& a, const f32x16& b) {
  return (i32x16)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
}

MXT_LANES __mmask16 first_lanes(std::int64_t n) {
  return n >= lanes ? __mmask16(0xffff) : n <= 0 ? __mmask16(0) : __mmask16((1u << n) - 1);
}

/// Lane i with lane i + 8, then 4, 2, 1, as sum() and largest() of simd.h, in registers.
template <class Join>
MXT_LANES float fold_lanes(f32x16 v, const Join& join) {
  v = join(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
  v = join(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7));
  v = join(v, __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3));
  v = join(v, __builtin_shufflevector(v, v, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  return v[0];
}
MXT_LANES float sum_of_lanes(const f32x16& v) {
  return fold_lanes(
      v, [](const f32x16& a, const f32x16& b) __attribute__((always_inline)) { return a + b; });
}
MXT_LANES float largest_lane(const f32x16& v) {
  return fold_lanes(
      v, [](const f32x16& a, const f32x16& b) __attribute__((always_inline)) { return max(a, b); });
}

/// Fetches what the thread reads next, a few lines at a time: the processor drops what is more than it can
/// have on its way.
class Fetcher {
 public:
  explicit Fetcher(const PairAhead& ahead) : ahead_(ahead) {}
  [[gnu::always_inline]] void step() {
    constexpr int lines_at_once = 16;
    for (int lines = 0; lines < lines_at_once && row_ < ahead_.rows;) {
      const PairSource& m = ahead_.sources[source_];
      const std::int64_t size = m.narrow ? 2 : 4;
      const char* const x = static_cast<const char*>(m.x) + row_ * m.stride * size;
      for (std::int64_t c = 0; row_ < m.rows && c < m.width * size; c += 64, ++lines)
        __builtin_prefetch(x + c, 0, 2);
      if (++source_ == ahead_.count) source_ = 0, ++row_;
    }
  }

 private:
  const PairAhead& ahead_;
  int source_ = 0;
  std::int64_t row_ = 0;
};

/// Lines whose words lie side by side: word k of line i.
struct Rows {
  const Word* words;
  std::int64_t stride;
  [[gnu::always_inline]] const Word* at(int i, std::int64_t k) const { return words + i * stride + k; }
};
/// The same in panels: sixteen lines' words of a step side by side.
struct Lines {
  const Word* words;
  [[gnu::always_inline]] const Word* at(int i, std::int64_t k) const { return words + k * lanes + i; }
};

/// sums[i][p] += the products of line i of a with the sixteen lines of panel p of b, from the first step to
/// the last. Panels are `panel` words apart.
template <int panels, class A>
MXT_LANES void add_dots(f32x16 (&sums)[block_lines][panels], const A a, const Word* b, std::int64_t panel,
                        std::int64_t steps) {
  for (std::int64_t k = 0; k < steps; ++k, b += lanes) {
    i32x16 of_b[panels];
    for (int p = 0; p < panels; ++p) of_b[p] = load_as<i32x16>(b + p * panel);
    for (int i = 0; i < block_lines; ++i) {
      const i32x16 of_a = all_ints(std::int32_t(*a.at(i, k)));
      for (int p = 0; p < panels; ++p) sums[i][p] = add_pair_products(sums[i][p], of_a, of_b[p]);
    }
  }
}

/// Where a block of sums goes: rows `stride` apart, of which the first `rows` and `cols` are there.
struct Target {
  float* c;
  std::int64_t stride, rows, cols;
  bool far = true;  ///< may have to be fetched from memory
};

/// c = or += the products of eight lines of a and `panels` panels of b.
template <int panels, class A>
MXT_LANES void multiply_block(const Target& to, const A& a, const Word* b, std::int64_t panel,
                              std::int64_t steps, bool accumulate) {
  f32x16 sums[block_lines][panels];
  if (to.far)  // its lines are on their way while the products are summed: stores would wait for them
    for (int i = 0; i < block_lines && i < to.rows; ++i)
      for (int p = 0; p < panels; ++p) __builtin_prefetch(to.c + i * to.stride + p * lanes, 1);
  const bool whole = to.rows >= block_lines && to.cols >= panels * lanes;
  if (!accumulate) {
    for (auto& line : sums)
      for (auto& sum : line) sum = f32x16{};
  } else if (whole) {
    for (int i = 0; i < block_lines; ++i)
      for (int p = 0; p < panels; ++p) sums[i][p] = load(to.c + i * to.stride + p * lanes);
  } else {
    for (int i = 0; i < block_lines; ++i)
      for (int p = 0; p < panels; ++p)
        sums[i][p] = _mm512_maskz_loadu_ps(i < to.rows ? first_lanes(to.cols - p * lanes) : __mmask16(0),
                                           to.c + i * to.stride + p * lanes);
  }
  add_dots<panels>(sums, a, b, panel, steps);
  for (int i = 0; i < block_lines; ++i)
    for (int p = 0; p < panels; ++p) {
      float* const c = to.c + i * to.stride + p * lanes;
      if (whole)
        store(c, sums[i][p]);
      else if (i < to.rows)
        _mm512_mask_storeu_ps(c, first_lanes(to.cols - p * lanes), sums[i][p]);
    }
}

/// body.operator()<n>(first) for `count` panels, n at a time: three, but no single one behind them.
template <class Body>
MXT_LANES void for_panels(std::int64_t count, const Body& body) {
  std::int64_t p = 0;
  while (count - p >= most_panels && count - p != 4)
    body.template operator()<most_panels>(p), p += most_panels;
  while (count - p >= 2) body.template operator()<2>(p), p += 2;
  if (p < count) body.template operator()<1>(p);
}

}  // namespace mxtape::cpu::MXT_TIER
#endif
