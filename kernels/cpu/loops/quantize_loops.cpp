#include "kernels/cpu/loops/quantize_loops.h"

#include "kernels/cpu/loops/for_blocks.h"
#include "kernels/cpu/loops/simd_philox.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

// --- largest magnitudes

MXT_LANES i32x16 magnitude_bits(const f32x16& v) { return as_signed(bits(v) & 0x7fffffffu); }

MXT_LANES i32x4 larger(const i32x4& a, const i32x4& b) { return a > b ? a : b; }
/// The largest of every fourth lane.
MXT_LANES i32x4 quarter(const i32x16& v) {
  i32x4 q[4];
  store_as(q, v);
  return larger(larger(q[0], q[2]), larger(q[1], q[3]));
}
/// Lane i is the largest lane of v[i].
MXT_LANES i32x4 largest_of_each(const i32x4 (&v)[4]) {
  const i32x4 ac = larger(__builtin_shufflevector(v[0], v[2], 0, 1, 4, 5),
                          __builtin_shufflevector(v[0], v[2], 2, 3, 6, 7));
  const i32x4 bd = larger(__builtin_shufflevector(v[1], v[3], 0, 1, 4, 5),
                          __builtin_shufflevector(v[1], v[3], 2, 3, 6, 7));
  return larger(__builtin_shufflevector(ac, bd, 0, 4, 2, 6), __builtin_shufflevector(ac, bd, 1, 5, 3, 7));
}

std::uint32_t amax_of_run(const float* x, std::int64_t count) {
  i32x16 most{};
  for_lanes(count, [&](std::int64_t i, auto part) { most = max(most, magnitude_bits(part.load(x + i))); });
  return fold<std::uint32_t>(as_unsigned(most),
                             [](std::uint32_t a, std::uint32_t b) { return b > a ? b : a; });
}

template <int along>
MXT_LANES i32x4 quarter_amax(const float* x) {
  if constexpr (along < lanes) {
    i32x4 halves[2];
    std::memcpy(halves, x, sizeof halves);
    return larger(halves[0] & 0x7fffffff, halves[1] & 0x7fffffff);
  }
  i32x16 most = magnitude_bits(load(x));
  for (int i = lanes; i < along; i += lanes) most = max(most, magnitude_bits(load(x + i)));
  return quarter(most);
}

template <int along>
void amax_along_row_of(std::uint32_t* amax, const Tile& t) {
  for (int r = 0; r < t.rows; ++r) {
    const float* x = t.x + r * t.stride;
    int left = t.cols;
    for (; left >= 4 * along; left -= 4 * along, x += 4 * along, amax += 4) {
      const i32x4 each[4] = {quarter_amax<along>(x), quarter_amax<along>(x + along),
                             quarter_amax<along>(x + 2 * along), quarter_amax<along>(x + 3 * along)};
      store_as(amax, largest_of_each(each));
    }
    for (; left > 0; left -= along, x += along) *amax++ = amax_of_run(x, left < along ? left : along);
  }
}

void amax_along_row(std::uint32_t* amax, const Tile& t, int along) {
  with_length<8>(along, [&](auto length) { amax_along_row_of<length()>(amax, t); });
}

void amax_along_column(std::uint32_t* amax, const Tile& t, int along) {
  for (int top = 0; top < t.rows; top += along, amax += t.cols) {
    const int bottom = top + along < t.rows ? top + along : t.rows;
    for_lanes(t.cols, [&](std::int64_t c, auto part) {
      i32x16 most{};
      for (int r = top; r < bottom; ++r) most = max(most, magnitude_bits(part.load(t.x + r * t.stride + c)));
      part.store(reinterpret_cast<float*>(amax + c), floats(as_unsigned(most)));
    });
  }
}

// --- scales

/// Exponents that are handled in lanes; others go through the scalar definition. No scale in here is
/// subnormal or out of a narrow scale's range, and every element times its scale is exact in bf16.
constexpr int safe_exponent = 80;

bool power_of_two_scales(TileScales out, std::uint32_t* amax, int count, const BlockRule& rule) {
  const int limit = rule.exponent_limit < safe_exponent ? rule.exponent_limit : safe_exponent;
  // An all-zero block takes any scale; one whose rms is too small for f32 does not.
  const i32x16 zero_counts = all_ints(rule.statistic == Statistic::rms ? -1 : 0);
  bool exact = true;
  for (int i = count; i % lanes != 0; ++i) amax[i] = amax[count - 1];
  for (int i = 0; i < count; i += lanes) {
    const u32x16 a = load_as<u32x16>(amax + i);
    // E + 127 as the definition has it for normal amax.
    const i32x16 picked = as_signed((a + rule.exponent.carry) >> 23) - rule.exponent.subtract;
    const i32x16 field = select(as_signed(a) == 0, i32x16{} + 127, picked);
    const i32x16 unsafe = ((as_signed(a) < 0x00800000) & ((as_signed(a) != 0) | zero_counts)) |
                          (as_signed(a) >= 0x7f800000) | (field < 127 - limit) | (field > 127 + limit);
    if (any(unsafe)) {
      exact = false;
      for (int k = i; k < i + lanes; ++k) {
        const BlockScale s = power_of_two_scale(rule, float_of(amax[k]));
        out.inverse[k] = s.inverse;
        out.scale[k] = s.scale;
      }
      continue;
    }
    store(out.scale + i, floats(as_unsigned(field) << 23));
    store(out.inverse + i, floats(as_unsigned(254 - field) << 23) * rule.alpha);
  }
  return exact;
}

bool floating_scales(TileScales out, std::uint32_t* amax, int count, const BlockRule& rule, float encode,
                     const std::uint16_t* draws) {
  constexpr float nan = __builtin_nanf("");
  const float factor = encode > 0 ? encode : nan;
  bool exact = true;
  for (int i = count; i % lanes != 0; ++i) amax[i] = amax[count - 1];
  with_scale_rounding(rule, rule.eden ? ScaleRounding::even : rule.scale_rounding, [&](const auto& round) {
    for (int i = 0; i < count; i += lanes) {
      const u32x16 a = load_as<u32x16>(amax + i);
      const f32x16 wanted = floats(a) / rule.element_max * factor;
      const i32x16 is_nan = (as_signed(a) >= 0x7f800000) | (wanted != wanted);
      const f32x16 scale = select(is_nan, all(nan), round(wanted, draws, i));
      const f32x16 positive = select(scale > 0.0f, scale, all(1));
      const f32x16 found = factor / positive * rule.alpha;
      const f32x16 inverse = select((scale > 0.0f) & (found <= 0x1.fffffep127f), found, all(0));
      exact = exact && !any(is_nan);
      store(out.scale + i, scale);
      store(out.inverse + i, inverse);
    }
  });
  return exact;
}

// --- elements

enum class Write { exact, rounded, wide };

template <Write write, class Round>
void round_elements(TileValues out, const Tile& t, Axis axis, int along, TileScales scales, const Round round,
                    TileDraws draws) {
  for_elements(
      t, axis, along, scales,
      [&](int r, std::int64_t c, auto part, const f32x16& inverse, const f32x16& scale)
          __attribute__((always_inline)) {
            const std::int64_t at = r * out.stride + c;
            const float* const x = t.x + r * t.stride + c;
            __builtin_prefetch(x + t.ahead, 0, 2);  // into the second cache, while this tile is in it
            const f32x16 scaled = part.load(x) * inverse;
            const f32x16 value = round(scaled, draws.bits, r * draws.stride + c) * scale;
            // Rounding may make a number of NaN.
            const f32x16 known = write == Write::exact ? value : select(scaled == scaled, value, scaled);
            if constexpr (write == Write::wide)
              part.store(out.wide + at, known);
            else
              part.store_upper(out.y + at, write == Write::exact ? bits(known) : nearest_bf16(bits(known)));
          });
}

void round_tile(TileValues out, const Tile& t, Axis axis, int along, TileScales scales, const BlockRule& rule,
                bool exact, TileDraws draws) {
  with_rounding(rule, draws.averages, [&](const auto& round) {
    out.wide ? round_elements<Write::wide>(out, t, axis, along, scales, round, draws)
    : exact  ? round_elements<Write::exact>(out, t, axis, along, scales, round, draws)
             : round_elements<Write::rounded>(out, t, axis, along, scales, round, draws);
  });
}

template <bool sum>
void combine(float* y, std::int64_t stride, const Tile& x, Axis axis, int along, float* of_blocks) {
  for_elements(x, axis, along, {of_blocks, of_blocks},
               [&](int r, std::int64_t c, auto part, const f32x16& of_block, const f32x16&) {
                 const f32x16 value = part.load(x.x + r * x.stride + c);
                 part.store(y + r * stride + c, sum ? value + of_block : value * of_block);
               });
}

void draw(std::uint16_t* bits, const DrawKey& key, std::uint64_t group, int step, int vectors) {
  const DrawKey own = key;  // which no store to `bits` can change: the round keys stay where they are
  const auto at = [&](int i) { return group + std::uint64_t(step) * std::uint64_t(i); };
  int i = 0;
  for (; i + 2 * groups_at_once <= vectors * lanes; i += 2 * groups_at_once)
    philox_lanes<4>(bits + 8 * i, own, at(i), step);
  for (; i < vectors * lanes; i += groups_at_once) philox_lanes(bits + 8 * i, own, at(i), step);
}

// --- gradients and sums

void mask(const TileGradients& g, const Tile& x, Axis axis, int along, TileScales scales,
          const BlockRule& rule) {
  const float highest = rule.grid.highest, lowest = rule.grid.lowest;
  for_elements(x, axis, along, scales,
               [&](int r, std::int64_t c, auto part, const f32x16& inverse, const f32x16&) {
                 const std::int64_t i = r * g.stride + c;
                 const f32x16 scaled = part.load(x.x + r * x.stride + c) * inverse;
                 const i32x16 beyond = (scaled > highest) | (scaled < lowest);
                 part.store(g.dx + i, part.load(g.dy + i) * select(beyond, all(0), all(1)));
               });
}

void sum_columns(float* sums, const Tile& t) {
  for_lanes(t.cols, [&](std::int64_t c, auto part) {
    f32x16 sum = part.load(t.x + c);
    for (int r = 1; r < t.rows; ++r) sum += part.load(t.x + r * t.stride + c);
    part.store(sums + c, sum);
  });
}

}  // namespace

extern const QuantizeLoops quantize_loops{amax_of_run,
                                          amax_along_row,
                                          amax_along_column,
                                          power_of_two_scales,
                                          floating_scales,
                                          round_tile,
                                          combine<true>,
                                          combine<false>,
                                          draw,
                                          mask,
                                          sum_columns};

}  // namespace mxtape::cpu::MXT_TIER
