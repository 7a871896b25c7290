#include "kernels/cpu/loops/decode_loops.h"

#include "kernels/cpu/loops/for_lanes.h"
#include "kernels/cpu/loops/simd_round.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

MXT_LANES void store_number(float* y, const f32x16& v, auto part) { part.store(y, v); }
MXT_LANES void store_number(std::uint16_t* y, const f32x16& v, auto part) {
  part.store_upper(y, nearest_bf16(bits(v)));
}
MXT_LANES f32x16 load_number(const auto* x, Full) { return wide(x); }
MXT_LANES f32x16 load_number(const float* x, First first) { return first.load(x); }
MXT_LANES f32x16 load_number(const std::uint16_t* x, First first) {
  return floats(load_halves_there(x, first.n) << 16);
}

/// Signed bytes at the upper end of words.
MXT_LANES f32x16 upper_code(const u32x16& word) { return to_floats(as_signed(word) >> 24); }

/// Four lines at a time, the last one first: where lines are missing, the next one writes over them.
template <class Y>
void decode_rows(Y* y, std::int64_t stride, const CodePanels& p, float multiplier) {
  for (std::int64_t top = 0; top < p.lines; top += 4) {
    const std::int8_t* const codes = p.codes + top / lanes * p.panel_codes + top % lanes * 4;
    const float* scales = p.scales + top / lanes * p.panel_scales + top % lanes;
    Y* out[4];
    for (int i = 0; i < 4; ++i) out[i] = y + (top + i < p.lines ? top + i : p.lines - 1) * stride;
    for (std::int64_t first = 0; first < p.depth; first += p.along, scales += lanes) {
      const std::int64_t end = first + p.along < p.depth ? first + p.along : p.depth;
      for_lanes(end - first, [&](std::int64_t i, auto part) {
        i32x4 quads[4];
        for (int q = 0; q < 4; ++q)
          std::memcpy(&quads[q], codes + (first + i + 4 * q) * lanes, sizeof quads[q]);
        transpose(quads);
        std::uint8_t of_line[4][lanes];
        std::memcpy(of_line, quads, sizeof of_line);
        for (int line = 3; line >= 0; --line)
          store_number(out[line] + first + i,
                       upper_code(load_narrow(of_line[line]) << 24) * scales[line] * multiplier, part);
      });
    }
  }
}

/// Four rows of y at a time, through all panels: long runs of memory.
template <class Y>
void decode_columns(Y* y, std::int64_t stride, const CodePanels& p, float multiplier) {
  for (std::int64_t k = 0; k < p.depth; k += 4) {
    const std::int64_t block = k / p.along * lanes;
    const int count = p.depth - k < 4 ? int(p.depth - k) : 4;
    for_lanes(p.lines, [&](std::int64_t line, auto part) {
      const std::int64_t panel = line / lanes;
      const u32x16 quads = load_as<u32x16>(p.codes + panel * p.panel_codes + k * lanes);
      const f32x16 scale = load(p.scales + panel * p.panel_scales + block);
      for (int r = 0; r < count; ++r)
        store_number(y + (k + r) * stride + line,
                     upper_code(quads << std::uint32_t(24 - 8 * r)) * scale * multiplier, part);
    });
  }
}

template <class Y, class X>
void multiply_numbers(Y* y, const X* x, std::int64_t count, float multiplier) {
  for_lanes(count, [&](std::int64_t i, auto part) {
    store_number(y + i, load_number(x + i, part) * multiplier, part);
  });
}

template <class Y>
constexpr DecodeLoopsTo<Y> loops_to{decode_rows<Y>, decode_columns<Y>, multiply_numbers<Y, float>,
                                    multiply_numbers<Y, std::uint16_t>};

}  // namespace

extern const DecodeLoops decode_loops{loops_to<float>, loops_to<std::uint16_t>};

}  // namespace mxtape::cpu::MXT_TIER
