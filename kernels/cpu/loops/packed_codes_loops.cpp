#include "kernels/cpu/loops/packed_codes_loops.h"

#include "kernels/cpu/loops/packed_bits.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

using native::i8;

MXT_LANES u8 right(const u8& v, int by) { return (u8)(((u64)v >> by) & in_each(8, 0xffu >> by)); }
MXT_LANES u8 left(const u8& v, int by) { return (u8)(((u64)v << by) & in_each(8, 0xffu << by & 0xffu)); }
MXT_LANES u8 all_bytes(int v) { return u8{} + std::uint8_t(v); }

/// The place of a magnitude on the grid grows by 1, 1/2, 1/4 ... of it in the binades: a concave line, the
/// least of its pieces. The magnitude of a place is the largest of the inverse ones.
template <class Bits, class Mantissa, class Binades>
MXT_LANES u8 number_of(const i8& code, Bits bits, Mantissa mantissa, Binades binades) {
  if (binades == 0) return (u8)code & all_bytes(int(low(bits)));
  const u8 negative = (u8)(code < i8{});
  const u8 magnitude = ((u8)code ^ negative) - negative;
  u8 place = magnitude;
  for (int j = 1; j < binades; ++j) {
    const u8 piece = right(magnitude, j) + all_bytes(j << mantissa);
    place = place < piece ? place : piece;
  }
  return place | (negative & all_bytes(1 << (bits - 1)));
}
template <class Bits, class Mantissa, class Binades>
MXT_LANES i8 code_of(const u8& number, Bits bits, Mantissa mantissa, Binades binades) {
  const u8 sign = all_bytes(1 << (bits - 1));
  if (binades == 0) return (i8)((number ^ sign) - sign);
  const u8 place = number & ~sign;
  u8 magnitude = place;
  for (int j = 1; j < binades; ++j) {
    const u8 first = all_bytes(j << mantissa);
    const u8 piece = left((place > first ? place : first) - first, j);
    magnitude = magnitude > piece ? magnitude : piece;
  }
  const u8 negative = (u8)((number & sign) != u8{});
  return (i8)((magnitude ^ negative) - negative);
}

/// Calls run(bits, mantissa, binades), known to the compiler for the formats of the presets.
template <class Run>
MXT_LANES void with_numbers(const CodeNumbers& of, const Run& run) {
  const auto is = [&](int bits, int mantissa, int binades) {
    return of.bits == bits && of.mantissa_bits == mantissa && of.binades == binades;
  };
  if (is(4, 1, 3)) return run(Known<4>{}, Known<1>{}, Known<3>{});
  if (is(6, 3, 3)) return run(Known<6>{}, Known<3>{}, Known<3>{});
  if (of.bits == 4 && of.binades == 0) return run(Known<4>{}, Known<0>{}, Known<0>{});
  run(of.bits, of.mantissa_bits, of.binades);
}

void pack_codes(std::uint8_t* y, const std::int8_t* codes, std::int64_t count, CodeNumbers of) {
  with_numbers(
      of, [&](auto bits, auto mantissa, auto binades) __attribute__((always_inline)) {
        for (std::int64_t i = 0; i < count; i += width)
          put(y + i / 8 * bits, number_of(load_as<i8>(codes + i), bits, mantissa, binades), bits);
      });
}

void unpack_codes(std::int8_t* codes, const std::uint8_t* x, std::int64_t count, CodeNumbers of) {
  with_numbers(
      of, [&](auto bits, auto mantissa, auto binades) __attribute__((always_inline)) {
        for (std::int64_t i = 0; i < count; i += width)
          store_as(codes + i, code_of(take(x + i / 8 * bits, bits), bits, mantissa, binades));
      });
}

void pack_exponents(std::uint8_t* y, const float* scales, std::int64_t count, float per_unit) {
  for (std::int64_t i = 0; i < count; i += lanes)
    store_narrow(y + i, (bits(load(scales + i) * per_unit) >> 23) & 0xffu);
}

void unpack_exponents(float* scales, const std::uint8_t* x, std::int64_t count, float unit) {
  for (std::int64_t i = 0; i < count; i += lanes)
    store(scales + i, power_of_field(load_narrow(x + i)) * unit);
}

void pack_floats(std::uint8_t* y, const float* scales, std::int64_t count, float per_unit, FloatNumbers of,
                 std::uint32_t nan) {
  const Grid16 grid = Grid16::of(of);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const f32x16 scale = load(scales + i) * per_unit;
    store_narrow(y + i, select(scale == scale, grid.code_of(scale), u32x16{} + nan));
  }
}

}  // namespace

extern const PackedCodesLoops packed_codes_loops{pack_codes, unpack_codes, pack_exponents, unpack_exponents,
                                                 pack_floats};

}  // namespace mxtape::cpu::MXT_TIER
