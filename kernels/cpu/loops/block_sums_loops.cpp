#include "kernels/cpu/loops/for_blocks.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

void rms(std::uint32_t* amax, const Tile& t, TileBlock block, const BlockRule& rule) {
  for_blocks(t, block, [&](const SixteenBlocks& blocks, const auto& each) {
    const u32x16 most = load_as<u32x16>(amax + blocks.first);
    // 2^e, e of amax or -126 below it, and 2^-e.
    const i32x16 up = max(as_signed(most & 0x7f800000u), all_ints(1 << 23));
    const f32x16 down = floats(as_unsigned(max(254 * (1 << 23) - up, all_ints(1 << 22))));
    f32x16 squares{};
    each([&](const f32x16& x, auto part) {
      const f32x16 scaled = x * down;
      squares = part.keep(squares + scaled * scaled, squares);
    });
    const f32x16 mean = rule.clip * sqrt(squares / to_floats(blocks.lengths)) * floats(as_unsigned(up));
    const i32x16 counts = (as_signed(most) > 0) & (as_signed(most) < 0x7f800000);
    std::uint32_t found[lanes];
    store_as(found, select(counts, bits(mean), most));
    std::memcpy(amax + blocks.first, found, std::size_t(blocks.count) * sizeof *found);
  });
}

/// What sixteen blocks err in sum with either of two scales.
template <bool absolute>
struct Errors {
  NearestEven round;
  f32x16 inverse[2], scale[2];
  f32x16 sum[2] = {};

  [[gnu::always_inline]] f32x16 of(const f32x16& x, int k) const {
    const f32x16 scaled = x * inverse[k];
    const f32x16 error = (round(scaled, nullptr, 0) - scaled) * scale[k];
    return absolute ? magnitude(error) : error * error;
  }
  template <class Part>
  [[gnu::always_inline]] void add(const f32x16& x, Part part) {
    for (int k = 0; k < 2; ++k) sum[k] = part.keep(sum[k] + of(x, k), sum[k]);
  }
};

template <bool absolute>
void take_better_by(TileScales best, TileScales other, const Tile& t, TileBlock block,
                    const BlockRule& rule) {
  for_blocks(t, block, [&](const SixteenBlocks& blocks, const auto& each) {
    const int at = blocks.first;
    const f32x16 first = load(best.scale + at), second = load(other.scale + at),
                 unit = floats(bits(first) & 0x7f800000u);
    Errors<absolute> errors{
        {rule.grid}, {load(best.inverse + at), load(other.inverse + at)}, {first / unit, second / unit}};
    each([&](const f32x16& x, auto part) { errors.add(x, part); });
    const i32x16 better = (errors.sum[1] < errors.sum[0]) | (errors.inverse[0] == 0.0f);
    store_there(best.inverse + at, select(better, errors.inverse[1], errors.inverse[0]), blocks.count);
    store_there(best.scale + at, select(better, second, first), blocks.count);
  });
}

void take_better(TileScales best, TileScales other, const Tile& t, TileBlock block, const BlockRule& rule) {
  (rule.absolute_error ? take_better_by<true> : take_better_by<false>)(best, other, t, block, rule);
}

template <class Round, class RoundScale>
bool eden_by(TileScales scales, const Tile& t, TileBlock block, const Round round,
             const RoundScale round_scale, const std::uint16_t* draws) {
  bool exact = true;
  for_blocks(t, block, [&](const SixteenBlocks& blocks, const auto& each) {
    const f32x16 inverse = load(scales.inverse + blocks.first), scale = load(scales.scale + blocks.first);
    f32x16 with_itself{}, with_rounded{};
    each([&](const f32x16& x, auto part) {
      const f32x16 scaled = x * inverse;
      with_itself = part.keep(with_itself + scaled * scaled, with_itself);
      with_rounded = part.keep(with_rounded + scaled * round(scaled, nullptr, 0), with_rounded);
    });
    const f32x16 wanted = scale * select(with_rounded > 0.0f, with_itself / with_rounded, all(1));
    const i32x16 is_nan = wanted != wanted;
    const f32x16 rounded = select(is_nan, wanted, round_scale(wanted, draws, blocks.first));
    exact = exact && !any(is_nan);
    store_there(scales.scale + blocks.first, select(inverse > 0.0f, rounded, scale), blocks.count);
    // Codes of a scale that becomes 0 are 0.
    store_there(scales.inverse + blocks.first, select(rounded == 0.0f, rounded, inverse), blocks.count);
  });
  return exact;
}

bool eden(TileScales scales, const Tile& t, TileBlock block, const BlockRule& rule,
          const std::uint16_t* draws) {
  bool exact = true;
  with_deterministic_rounding(rule, [&](const auto& round) {
    with_scale_rounding(rule, rule.scale_rounding, [&](const auto& round_scale) {
      exact = eden_by(scales, t, block, round, round_scale, draws);
    });
  });
  return exact;
}

void midpoints(TileScales out, const Tile& t, TileBlock block) {
  const NearestEven to_half{grid_of(f16)};
  for_blocks(t, block, [&](const SixteenBlocks& blocks, const auto& each) {
    f32x16 lowest = all(__builtin_inff()), highest = -lowest, zero{};  // or NaN
    each([&](const f32x16& x, auto part) {
      lowest = part.keep(select(x < lowest, x, lowest), lowest);
      highest = part.keep(select(x > highest, x, highest), highest);
      zero = part.keep(zero + x * 0.0f, zero);
    });
    // Of zeros of both signs both ends are the first one.
    const f32x16 middle = (highest + lowest) * 0.5f;
    const f32x16 offset = select(zero == zero, to_half(middle, nullptr, 0), all(0));
    // -0 changes no number that it is added to.
    store_there(out.inverse + blocks.first, -offset, blocks.count);
    store_there(out.scale + blocks.first, select(offset == 0.0f, all(-0.0f), offset), blocks.count);
  });
}

}  // namespace

extern const BlockSumsLoops block_sums_loops{rms, take_better, eden, midpoints};

}  // namespace mxtape::cpu::MXT_TIER
