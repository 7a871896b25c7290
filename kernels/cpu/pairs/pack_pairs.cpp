#include "kernels/cpu/pairs/pair_dots.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

constexpr std::int64_t granule = PairSource::granule;

/// A line's number, of which g++ knows nothing: it would keep the addresses of all lines, in memory.
MXT_LANES std::int64_t number(std::int64_t line) {
  asm("" : "+r"(line));
  return line;
}

/// Numbers of one matrix, in words; those that are not there are 0.
template <bool whole, bool narrow>
struct Reader {
  const PairSource& m;

  /// 32 of row r from column c on.
  [[gnu::always_inline]] u32x16 along_row(std::int64_t r, std::int64_t c) const {
    if constexpr (!narrow) return joined(wide(r, c), wide(r, c + lanes));
    const auto* const from = static_cast<const std::uint16_t*>(m.x) + r * m.stride + c;
    if constexpr (whole) return first_above(load_as<u32x16>(from));
    std::uint16_t halves[granule] = {};
    const std::int64_t left = m.width - c, count = r >= m.rows ? 0 : left < granule ? left : granule;
    if (count > 0) std::memcpy(halves, from, std::size_t(count) * sizeof *from);
    return first_above(load_as<u32x16>(halves));
  }
  /// Those of rows r and r + 1 in sixteen columns.
  [[gnu::always_inline]] u32x16 along_column(std::int64_t r, std::int64_t c) const {
    if constexpr (!narrow) return pairs_of(wide(r, c), wide(r + 1, c));
    return paired(extended(r, c), extended(r + 1, c));
  }

 private:
  [[gnu::always_inline]] std::int64_t there(std::int64_t r, std::int64_t c) const {
    return whole ? lanes : r < m.rows ? m.width - c : 0;
  }
  [[gnu::always_inline]] f32x16 wide(std::int64_t r, std::int64_t c) const {
    return load_there(static_cast<const float*>(m.x) + r * m.stride + c, there(r, c));
  }
  [[gnu::always_inline]] u32x16 extended(std::int64_t r, std::int64_t c) const {
    return load_halves_there(static_cast<const std::uint16_t*>(m.x) + r * m.stride + c, there(r, c));
  }
};

/// The copies of 32 rows and 32 columns from (r, c) on.
template <bool whole, bool narrow>
MXT_LANES void pack_chunk(const PairSource& m, const PairCopies& to, std::int64_t r, std::int64_t c) {
  const Reader<whole, narrow> from{m};
  u32x16 w[lanes];
  for (std::int64_t row = r; (to.rows || to.lines) && row < r + granule; row += lanes) {
    for (int i = 0; i < lanes; ++i) w[i] = from.along_row(number(row + i), c);
    for (int i = 0; to.rows && i < lanes; ++i)
      store_as(to.rows + number(row + i) * m.row_words() + c / 2, w[i]);
    if (!to.lines) continue;
    transpose(w);
    Word* const line = to.lines + row / lanes * m.panel_of_rows() + c / 2 * lanes;
    for (int i = 0; i < lanes; ++i) store_as(line + i * lanes, w[i]);
  }
  for (std::int64_t column = c; (to.columns || to.turned) && column < c + granule; column += lanes) {
    for (int i = 0; i < lanes; ++i) w[i] = from.along_column(number(r + 2 * i), column);
    for (int i = 0; to.columns && i < lanes; ++i)
      store_as(to.columns + column / lanes * m.panel_of_columns() + (r / 2 + i) * lanes, w[i]);
    if (!to.turned) continue;
    transpose(w);
    for (int i = 0; i < lanes; ++i) store_as(to.turned + number(column + i) * m.column_words() + r / 2, w[i]);
  }
}

template <bool narrow>
void pack_chunks(const PairSource m, const PairCopies to) {  // which no store can change
  for (std::int64_t r = 0; r < m.rows; r += granule)
    for (std::int64_t c = 0; c < m.width; c += granule)
      r + granule <= m.rows&& c + granule <= m.width ? pack_chunk<true, narrow>(m, to, r, c)
                                                     : pack_chunk<false, narrow>(m, to, r, c);
}

}  // namespace

void pack(const PairSource& source, const PairCopies& copies) {
  source.narrow ? pack_chunks<true>(source, copies) : pack_chunks<false>(source, copies);
}

}  // namespace mxtape::cpu::MXT_TIER
