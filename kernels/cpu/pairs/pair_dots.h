#pragma once
// For *_pairs.cpp only: sums of products of bf16, two at a time, in blocks that stay in registers.
#include "kernels/cpu/pairs/pair_words.h"

namespace mxtape::cpu::MXT_TIER {

void pack(const PairSource&, const PairCopies&);

MXT_LANES f32x16 add_pair_products(const f32x16& sum, const u32x16& a, const u32x16& b) {
#if defined(__AVX512BF16__)
  return (f32x16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
  const f32x16 first = multiply_add(floats(a & 0xffff0000u), floats(b & 0xffff0000u), sum);
  return multiply_add(floats(a << 16), floats(b << 16), first);
#endif
}

/// Lines whose words lie side by side, a multiple of 16 for each.
struct Rows {
  const Word* words;
  std::int64_t stride;
};
/// Panels of sixteen lines, `panel` words apart: word k of line i of a panel is word 16 k + i.
struct Panels {
  const Word* words;
  std::int64_t panel;
};
/// Where sums go: rows `stride` apart.
struct Target {
  float* c;
  std::int64_t stride, rows, cols;
  bool far = true;              ///< may have to be fetched from memory
  bool apart = false;           ///< products are added up before what is in c; AMX takes no notice
  const float* bias = nullptr;  ///< [cols], added last; without AMX only if `apart`
};

#if defined(MXT_AMX)
// A block of sums is 32 x 32: four tiles, so that no sum waits for the one before it.
inline constexpr int line_granule = 32;

/// While it lives, all eight tiles have 16 rows of 64 bytes.
struct TileShapes {
  TileShapes() {
    alignas(64) std::uint8_t shapes[64] = {1};  // palette 1; bytes of a row from 16 on, rows from 48 on
    for (int i = 0; i < 8; ++i) shapes[16 + 2 * i] = 64, shapes[48 + i] = 16;
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  ~TileShapes() { _tile_release(); }
};

// Rows of a tile are so many bytes apart.
template <int tile>
MXT_LANES void load_tile(const void* from, std::int64_t bytes) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(tile), "r"(from), "r"(bytes) : "memory");
}
template <int tile>
MXT_LANES void store_tile(void* to, std::int64_t bytes) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(tile), "r"(to), "r"(bytes) : "memory");
}
template <int tile>
MXT_LANES void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}
template <int sums, int a, int b>
MXT_LANES void add_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
}

/// c = or += the products of lines of a and of b, `steps` words of each, with zeros up to a multiple of 16.
/// Lines can be read up to a multiple of 32, panels up to an even number.
MXT_LANES void multiply(const Target& to, const Rows a, const Panels b, std::int64_t steps, bool accumulate) {
  constexpr std::int64_t block = line_granule;
  for (std::int64_t col = 0; col < to.cols; col += block)
    for (std::int64_t row = 0; row < to.rows; row += block) {
      alignas(64) float part[block * block];
      const bool whole = to.rows - row >= block && to.cols - col >= block;
      float* const there = to.c + row * to.stride + col;
      const auto each_at_edge = [&](const auto& copy) __attribute__((always_inline)) {
        for (std::int64_t i = 0; i < block && row + i < to.rows; ++i)
          for (std::int64_t j = 0; j < block && col + j < to.cols; ++j)
            copy(part[i * block + j], there[i * to.stride + j]);
      };
      float* const c = whole ? there : part;
      const std::int64_t stride = (whole ? to.stride : block), bytes = stride * 4;
      if (accumulate) {
        if (!whole) each_at_edge([](float& near, float& far) { near = far; });
        load_tile<0>(c, bytes), load_tile<1>(c + lanes, bytes);
        load_tile<2>(c + lanes * stride, bytes), load_tile<3>(c + lanes * stride + lanes, bytes);
      } else {
        clear_tile<0>(), clear_tile<1>(), clear_tile<2>(), clear_tile<3>();
      }
      const Word *left = a.words + row * a.stride, *right = b.words + col / lanes * b.panel;
      const std::int64_t rows_a_step = to.far ? block * lanes / steps + 1 : 0;
      std::int64_t fetched = 0;
      for (std::int64_t k = 0; k < steps; k += lanes, left += lanes, right += lanes * lanes) {
        for (const auto end = fetched + rows_a_step; fetched < end && row + fetched < to.rows; ++fetched)
          for (int p = 0; p < block; p += lanes) __builtin_prefetch(there + fetched * to.stride + p, 1);
        load_tile<4>(left, a.stride * 4), load_tile<5>(left + lanes * a.stride, a.stride * 4);
        load_tile<6>(right, 64), load_tile<7>(right + b.panel, 64);
        add_products<0, 4, 6>(), add_products<1, 4, 7>(), add_products<2, 5, 6>(), add_products<3, 5, 7>();
      }
      store_tile<0>(c, bytes), store_tile<1>(c + lanes, bytes);
      store_tile<2>(c + lanes * stride, bytes), store_tile<3>(c + lanes * stride + lanes, bytes);
      for (int i = 0; to.bias && i < block; ++i)
        for (int p = 0; p < block; p += lanes)
          store(c + i * stride + p,
                load(c + i * stride + p) + load_there(to.bias + col + p, to.cols - col - p));
      if (!whole) each_at_edge([](float& near, float& far) { far = near; });
    }
}
#else
// A block of sums is so many lines by up to three panels, in registers, and no sum waits for the last.
#if defined(__AVX512F__)
inline constexpr int block_lines = 8, most_panels = 3;
#else
inline constexpr int block_lines = 4, most_panels = 1;
#endif
inline constexpr int line_granule = 16;
struct TileShapes {};

/// sums[i][p] += the products of line i of a with the sixteen lines of panel p of b, from the first step to
/// the last.
template <int panels>
MXT_LANES void add_dots(f32x16 (&sums)[block_lines][panels], const Rows a, const Panels at,
                        std::int64_t steps) {
  const Word* b = at.words;
  for (std::int64_t k = 0; k < steps; ++k, b += lanes) {
    u32x16 of_b[panels];
    for (int p = 0; p < panels; ++p) of_b[p] = load_as<u32x16>(b + p * at.panel);
    for (int i = 0; i < block_lines; ++i) {
      const u32x16 of_a = as_unsigned(all_ints(std::int32_t(a.words[i * a.stride + k])));
      for (int p = 0; p < panels; ++p) sums[i][p] = add_pair_products(sums[i][p], of_a, of_b[p]);
    }
  }
}

/// c = or += the products of eight lines of a and `panels` panels of b; `whole`: c has all of them. A loop
/// bound or an access that depends on what c has would keep the sums in memory.
template <int panels, bool whole>
MXT_LANES void multiply_block(const Target& to, const Rows a, const Panels b, std::int64_t steps,
                              bool accumulate) {
  f32x16 sums[block_lines][panels];
  const std::int64_t rows = whole || to.rows > block_lines ? block_lines : to.rows;
  const auto each = [&](const auto& use) __attribute__((always_inline)) {
    for (int i = 0; i < rows; ++i)
      for (int p = 0; p < panels; ++p) use(sums[i][p], to.c + i * to.stride + p * lanes, p * lanes);
  };
  const auto there = [&](const float* from, int col) __attribute__((always_inline)) {
    return whole ? load(from) : load_there(from, to.cols - col);
  };
  if (to.far)  // its lines are on their way while the products are summed: stores would wait for them
    each([](f32x16&, float* c, int) { __builtin_prefetch(c, 1); });
  for (auto& line : sums)
    for (f32x16& sum : line) sum = f32x16{};
  if (accumulate && !to.apart) each([&](f32x16& sum, float* c, int col) { sum = there(c, col); });
  add_dots<panels>(sums, a, b, steps);
  if (to.apart)
    each([](f32x16& sum, float*, int) { sum += 0.0f; });  // of -0: an odd number has a 0 beside it
  if (to.apart && accumulate) each([&](f32x16& sum, float* c, int col) { sum = there(c, col) + sum; });
  if (to.bias) each([&](f32x16& sum, float*, int col) { sum += there(to.bias + col, col); });
  each([&](f32x16& sum, float* c, int col) { whole ? store(c, sum) : store_there(c, sum, to.cols - col); });
}

/// c = or += the products of lines of a and of b, `steps` words of each. As many panels at a time as may be,
/// but no single one behind three.
MXT_LANES void multiply(const Target& to, const Rows a, const Panels b, std::int64_t steps, bool accumulate) {
  const auto blocks = [&]<int n>(std::int64_t col) __attribute__((always_inline)) {
    for (std::int64_t row = 0; row < to.rows; row += block_lines) {
      const Target block{
          to.c + row * to.stride + col,     to.stride, to.rows - row, to.cols - col, to.far, to.apart,
          to.bias ? to.bias + col : nullptr};
      const Rows of_a{a.words + row * a.stride, a.stride};
      const Panels of_b{b.words + col / lanes * b.panel, b.panel};
      if (block.rows >= block_lines && block.cols >= n * lanes)
        multiply_block<n, true>(block, of_a, of_b, steps, accumulate);
      else
        multiply_block<n, false>(block, of_a, of_b, steps, accumulate);
    }
  };
  std::int64_t left = (to.cols + lanes - 1) / lanes, col = 0;
  if constexpr (most_panels == 3) {
    for (; left >= most_panels && left != 4; left -= most_panels, col += most_panels * lanes)
      blocks.template operator()<most_panels>(col);
    for (; left >= 2; left -= 2, col += 2 * lanes) blocks.template operator()<2>(col);
  }
  for (; left > 0; --left, col += lanes) blocks.template operator()<1>(col);
}
#endif

}  // namespace mxtape::cpu::MXT_TIER
