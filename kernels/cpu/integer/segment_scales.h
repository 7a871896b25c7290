#pragma once
// For integer_dots.cpp only: how a segment's sum of products meets its two scales. Multiplications wait for
// the ports of the dot products. Most scales can do with fewer, and no bit changes: every product is exact.
#include <array>
#include <bit>

#include "kernels/cpu/integer/byte_dots.h"
#include "kernels/cpu/integer/dots.h"

namespace mxtape::cpu::MXT_TIER {

/// sum += t sa sb, rounded once.
enum class Way {
  plain,    ///< fma(t sa, sb, sum)
  shared,   ///< all lines of b's panel have the same sb: fma(t, sa sb, sum), whose sa sb serves all of them
  looked,   ///< both have few digits: fma(t, sa sb, sum), whose sa sb is shuffled from a table
  added,    ///< both are powers of two: sum + ((1.5 2^23 + t) 2^e - 1.5 2^23 2^e), without a multiplication
  shifted,  ///< sb is one: fma(t, sa sb, sum), whose sa sb is an integer addition
  folded,   ///< the same with b's codes times the fractions of their scales
};
constexpr std::uint32_t one_bits = 0x3f800000, shift_bits = 0x4b400000;  // of 1 and 1.5 2^23

/// What is known of many scales.
struct ScalesSeen {
  i32x16 unsafe{};  // for arithmetic on exponents
  u32x16 fractions{};

  [[gnu::always_inline]] void add(const u32x16& scale) {
    constexpr int most = 50;
    const i32x16 field = as_signed(scale >> 23);
    unsafe = unsafe | (((field < 127 - most) | (field > 127 + most)) & (as_signed(scale) != 0));
    fractions = fractions | (scale & 0x7fffffu);
  }
  bool are_powers() const { return !any(unsafe | as_signed(fractions)); }
  /// Four: times a sum of up to 2^20 they are exact.
  bool have_few_digits() const { return !any(unsafe | as_signed(fractions & 0xfffffu)); }
};

/// Way::shared: sa sb of a panel of a and `panels` panels of b, which have one entry each a segment.
template <int panels>
MXT_LANES void multiply_shared(float* to, const float* a, const float* b, std::int64_t segments) {
  for (std::int64_t i = 0; i < segments * panels; ++i)
    store(to + i * lanes, load(a + i / panels * lanes) * all(b[i]));
}

/// [f][i], twice: bits of (1 + f / 8) (1 + i / 8), less those of f and i in the words that are added to it.
alignas(64) inline constexpr auto products_of_fractions = [] {
  std::array<std::int32_t, 8 * lanes> t{};
  for (int k = 0, f = 0, i = 0; k < 8 * lanes; ++k, f = k / lanes, i = k % 8)
    t[k] = std::bit_cast<int>((8 + f) * (8 + i) * 0x1p-6f) - int(one_bits) - (f << 20) - i;
  return t;
}();
/// What is added to b's word: bits of the two scales' product, less that word.
template <Way way>
MXT_LANES i32x16 beside(std::int32_t bits_of_a, [[maybe_unused]] const i32x16& b) {
#if defined(__AVX512F__)
  if constexpr (way == Way::looked) {
    const i32x16 row = load_as<i32x16>(products_of_fractions.data() + (bits_of_a >> 20 & 7) * lanes);
    return (i32x16)_mm512_maskz_permutexvar_epi32(0xffff, (__m512i)b, (__m512i)(row + all_ints(bits_of_a)));
  }
#endif
  return all_ints(bits_of_a);
}

/// sums[i][p] of four lines of a and some panels of b. `a`: a's scales or what multiply_shared() left, and
/// their bits, 1 for 0; `b`: as pack_scales() left them.
template <Way way, int rows, int panels>
MXT_LANES void add_scaled(f32x16 (&sums)[rows][panels], const i32x16 (&t)[rows][panels], const float* a,
                          const std::int32_t* bits_of_a, const float* b) {
  for (int i = 0; i < rows; ++i)
    for (int p = 0; p < panels; ++p) {
      f32x16& sum = sums[i][p];
      const float* const of_panel = b + p * lanes;
      if constexpr (way == Way::plain)
        sum = multiply_add(to_floats(t[i][p]) * all(a[i]), load(of_panel), sum);
      else if constexpr (way == Way::shared)
        sum = multiply_add(to_floats(t[i][p]), all(a[p * lanes + i]), sum);
      else {
        const i32x16 of_b = load_as<i32x16>(of_panel), scale = of_b + beside<way>(bits_of_a[i], of_b);
        if constexpr (way == Way::added)
          sum += floats(as_unsigned(t[i][p] + scale)) - floats(as_unsigned(scale));
        else
          sum = multiply_add(to_floats(t[i][p]), floats(as_unsigned(scale)), sum);
      }
    }
}

/// Codes up to 8 times 8 to 15, the fractions of their lines' scales in eighths.
MXT_LANES u32x16 times_fraction(const u32x16& codes, const float* scales) {
  const u32x16 eighths = (load_as<u32x16>(scales) >> 20 & 7u) | 8u;
  return (codes_plus<8>(codes) * eighths + (0x80808080u - eighths * 0x08080808u)) ^ 0x80808080u;
}

/// The scales of `panels` panels of b, `count` segments from `from` on, for add_scaled() by the way that is
/// returned. `folds`: times_fraction() may change its codes.
template <int panels>
Way pack_scales(float* to, const float* from, std::int64_t panel, std::int64_t count, const ScalesSeen& a,
                bool folds) {
  ScalesSeen seen;
  i32x16 varied{};
  const auto each = [&](const auto& use) {
    for (std::int64_t s = 0; s < count; ++s)
      for (int p = 0; p < panels; ++p) use(s * panels * lanes, p, from + p * panel + s * lanes);
  };
  each([&](std::int64_t, int, const float* scales) {
    const u32x16 scale = load_as<u32x16>(scales);
    seen.add(scale);
    varied = varied | (scale != bits(all(scales[0])));
  });
  const bool powers = seen.are_powers(), exact = a.have_few_digits() && seen.have_few_digits();
  const Way way = powers && a.are_powers() ? Way::added
                  : exact && powers        ? Way::shifted
                  : exact && !any(varied)  ? Way::shared
                  : exact && folds         ? Way::folded
                  : exact && has_avx512    ? Way::looked
                                           : Way::plain;
  const std::uint32_t down = way == Way::added    ? 2 * one_bits - shift_bits
                             : way == Way::folded ? one_bits + (3u << 23)
                                                  : one_bits;
  each([&](std::int64_t segment, int p, const float* scales) {
    const u32x16 scale = load_as<u32x16>(scales);
    if (way == Way::shared) return void(to[segment / lanes + p] = scales[0]);
    u32x16 power = select(as_signed(scale) == 0, u32x16{} + one_bits, scale & 0x7f800000u);
    if (way == Way::looked) power = power + (scale >> 20 & 7u);
    store_as(to + segment + p * lanes, way == Way::plain ? scale : power - down);
  });
  return way;
}

}  // namespace mxtape::cpu::MXT_TIER
