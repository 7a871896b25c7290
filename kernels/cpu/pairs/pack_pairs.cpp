#include "kernels/cpu/pairs/pair_dots.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

/// Sixteen numbers of row r from column c on; those that are not there are 0.
template <bool whole, bool narrow>
MXT_LANES f32x16 numbers(const PairSource& m, std::int64_t r, std::int64_t c) {
  const __mmask16 there = whole ? __mmask16(0xffff) : r < m.rows ? first_lanes(m.width - c) : __mmask16(0);
  if constexpr (narrow) {
    const auto* const from = static_cast<const std::uint16_t*>(m.x) + r * m.stride + c;
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(there, from));
    return (f32x16)((u32x16)wide << 16);
  }
  return (f32x16)_mm512_maskz_loadu_ps(there, static_cast<const float*>(m.x) + r * m.stride + c);
}

/// Blocks of words beside the diagonal change places.
template <int block>
MXT_LANES void exchange(i32x16 (&w)[lanes]) {
  const i32x16 lane = lane_numbers(), right = (lane & block) != 0;
  const i32x16 upper = select(right, lane + (lanes - block), lane);
  const i32x16 lower = select(right, lane + lanes, lane + block);
  for (int i = 0; i < lanes; ++i) {
    if (i & block) continue;
    const __m512i a = (__m512i)w[i], b = (__m512i)w[i + block];
    w[i] = (i32x16)_mm512_permutex2var_epi32(a, (__m512i)upper, b);
    w[i + block] = (i32x16)_mm512_permutex2var_epi32(a, (__m512i)lower, b);
  }
}
/// Words [r][i] to [i][r].
MXT_LANES void transpose(i32x16 (&w)[lanes]) {
  exchange<8>(w), exchange<4>(w), exchange<2>(w), exchange<1>(w);
}

/// The copies of sixteen rows and 32 columns from (r, c) on.
template <bool whole, bool narrow>
MXT_LANES void pack_chunk(const PairSource& m, const PairCopies& to, std::int64_t r, std::int64_t c) {
  const auto at = [&](std::int64_t row, std::int64_t column) __attribute__((always_inline)) {
    return numbers<whole, narrow>(m, row, column);
  };
  if (to.rows || to.lines) {
    i32x16 w[lanes];
    for (int i = 0; i < lanes; ++i) w[i] = joined(at(r + i, c), at(r + i, c + lanes));
    if (to.rows)
      for (int i = 0; i < lanes; ++i) store_as(to.rows + (r + i) * m.row_words() + c / 2, w[i]);
    if (to.lines) {
      transpose(w);
      Word* const line = to.lines + r / lanes * m.panel_of_rows() + c / 2 * lanes;
      for (int i = 0; i < lanes && c / 2 + i < m.panel_of_rows() / lanes; ++i)
        store_as(line + i * lanes, w[i]);
    }
  }
  if (!to.columns) return;
  for (std::int64_t column = c; column < c + 2 * lanes && column < m.width; column += lanes) {
    Word* const words = to.columns + column / lanes * m.panel_of_columns() + r / 2 * lanes;
    for (int i = 0; i < lanes; i += 2)
      store_as(words + i / 2 * lanes, pairs_of(at(r + i, column), at(r + i + 1, column)));
  }
}

template <bool narrow>
void pack_chunks(const PairSource m, const PairCopies to) {  // which no store can change
  for (std::int64_t r = 0; r < m.rows; r += lanes)
    for (std::int64_t c = 0; c < m.width; c += 2 * lanes)
      r + lanes <= m.rows&& c + 2 * lanes <= m.width ? pack_chunk<true, narrow>(m, to, r, c)
                                                     : pack_chunk<false, narrow>(m, to, r, c);
}

}  // namespace

void pack(const PairSource& source, const PairCopies& copies) {
  source.narrow ? pack_chunks<true>(source, copies) : pack_chunks<false>(source, copies);
}

}  // namespace mxtape::cpu::MXT_TIER
