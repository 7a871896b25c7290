#include "kernels/cpu/loops/choose_rounding.h"
#include "kernels/cpu/loops/for_lanes.h"
#include "kernels/cpu/loops/quantize_loops.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

/// Sixteen codes: round(x * inverse) in units, 0 for NaN and in a block that is NaN.
template <bool exact, class Round, class Part>
MXT_LANES i32x16 codes_of(const float* x, Part part, const f32x16& inverse, const f32x16& scale,
                          float per_unit, const Round& round, const std::uint16_t* draws,
                          std::int64_t first_draw, std::int64_t ahead) {
  __builtin_prefetch(x + ahead, 0, 2);  // into the second cache, while this tile is in it
  const f32x16 scaled = part.load(x) * inverse;
  const i32x16 codes = to_ints(round(scaled, draws, first_draw) * per_unit);
  if constexpr (exact) return codes;
  return select((scaled == scaled) & (scale == scale), codes, i32x16{});
}

MXT_LANES void store_quads(std::int8_t* y, const i32x16 (&codes)[4]) {
  i32x4 quads[4];
  quads_of_rows(quads, codes);
  for (int q = 0; q < 4; ++q) std::memcpy(y + q * lanes * 4, &quads[q], sizeof quads[q]);
}

struct Encoding {
  TileCodes out;
  Tile t;
  int along;
  TileScales scales;
  TileDraws draws;
};

/// Four rows at a time; rows that are missing are the last one times 0.
template <bool exact, int along, class Round>
void encode_rows(const Encoding e, const Round round) {
  const Tile t = e.t;
  const int blocks = (t.cols + along - 1) / along;
  const float unit = e.out.unit, per_unit = 1 / unit;
  for (int top = 0; top < t.rows; top += 4) {
    const std::int64_t line = e.out.line + top;
    std::int8_t* const y =
        e.out.codes + line / lanes * e.out.panel_codes + e.out.k * lanes + line % lanes * 4;
    float* scales = e.out.scales + line / lanes * e.out.panel_scales + e.out.k / along * lanes + line % lanes;
    const float* x[4];
    std::int64_t draw[4];
    int row[4];
    for (int r = 0; r < 4; ++r) {
      row[r] = top + r < t.rows ? top + r : t.rows - 1;
      x[r] = t.x + row[r] * t.stride;
      draw[r] = row[r] * e.draws.stride;
    }
    for (int b = 0; b < blocks; ++b, scales += lanes) {
      f32x16 inverse[4], scale[4];
      for (int r = 0; r < 4; ++r) {
        const bool there = top + r < t.rows;
        const float s = there ? e.scales.scale[row[r] * blocks + b] : 0;
        inverse[r] = all(there ? e.scales.inverse[row[r] * blocks + b] : 0);
        scale[r] = all(s);
        scales[r] = s * unit;
      }
      const int first = b * along;
      const auto encode = [&](std::int64_t i, auto part) __attribute__((always_inline)) {
        const std::int64_t c = first + i;
        i32x16 codes[4];
        for (int r = 0; r < 4; ++r)
          codes[r] = codes_of<exact>(x[r] + c, part, inverse[r], scale[r], per_unit, round, e.draws.bits,
                                     draw[r] + c, t.ahead);
        store_quads(y + c * lanes, codes);
      };
      first + along <= t.cols ? for_lanes(along, encode) : for_lanes(t.cols - first, encode);
    }
  }
}

template <bool exact, class Round>
void encode_columns(const Encoding e, const Round round) {
  const Tile t = e.t;
  const float per_unit = 1 / e.out.unit;
  const std::int64_t line = e.out.line;
  const float *inverse = e.scales.inverse, *scale = e.scales.scale;
  for (int top = 0; top < t.rows; top += e.along, inverse += t.cols, scale += t.cols) {
    const int bottom = top + e.along < t.rows ? top + e.along : t.rows;
    for_lanes(t.cols, [&](std::int64_t c, auto part) {
      store(e.out.scales + (line + c) / lanes * e.out.panel_scales + (e.out.k + top) / e.along * lanes,
            part.load(scale + c) * e.out.unit);
    });
    for (int r = top; r < (bottom + 15) / 16 * 16; r += 4)
      for_lanes(t.cols, [&](std::int64_t c, auto part) {
        u32x16 quads{};
        for (int k = 0; k < 4 && r + k < bottom; ++k) {
          const i32x16 codes = codes_of<exact>(t.x + (r + k) * t.stride + c, part, part.load(inverse + c),
                                               part.load(scale + c), per_unit, round, e.draws.bits,
                                               (r + k) * e.draws.stride + c, t.ahead);
          quads = quads | ((as_unsigned(codes) & 0xffu) << std::uint32_t(8 * k));
        }
        store_as(e.out.codes + (line + c) / lanes * e.out.panel_codes + (e.out.k + r) * lanes, quads);
      });
  }
}

void encode(const TileCodes& out, const Tile& t, Axis axis, int along, TileScales scales,
            const BlockRule& rule, bool exact, TileDraws draws) {
  const Encoding e{out, t, along, scales, draws};
  with_rounding(rule, draws.averages, [&](const auto& round) {
    if (axis == Axis::column) return exact ? encode_columns<true>(e, round) : encode_columns<false>(e, round);
    with_length<16>(along, [&](auto length) {
      exact ? encode_rows<true, length()>(e, round) : encode_rows<false, length()>(e, round);
    });
  });
}

}  // namespace

extern const EncodeLoops encode_loops{encode};

}  // namespace mxtape::cpu::MXT_TIER
