#include "kernels/cpu/loops/narrow_loops.h"

#include "kernels/cpu/loops/choose_rounding.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

// Codes of a few bits in registers, and what they stand for.

using native::i8;
using native::u64;
using native::u8;

constexpr int width = sizeof(u8);  ///< codes in a register

/// A number that the compiler may know.
template <int n>
using Known = std::integral_constant<int, n>;

MXT_LANES constexpr std::uint64_t low(int bits) { return (std::uint64_t{1} << bits) - 1; }
/// `pattern` in each of the fields of `field` bits.
MXT_LANES constexpr std::uint64_t in_each(int field, std::uint64_t pattern) {
  std::uint64_t all = 0;
  for (int at = 0; at < 64; at += field) all |= pattern << at;
  return all;
}

/// Eight bytes of `bits` bits each to the low end of a word: neighbours of 1, 2 and 4 bytes are joined.
template <class Bits>
MXT_LANES u64 squeezed(u64 w, Bits bits) {
  w = (w & in_each(16, 0xff)) | (w & in_each(16, 0xff00)) >> (8 - bits);
  w = (w & in_each(32, 0xffff)) | (w & in_each(32, 0xffff0000)) >> (16 - 2 * bits);
  return (w & low(32)) | (w & ~low(32)) >> (32 - 4 * bits);
}
/// The other way.
template <class Bits>
MXT_LANES u64 spread(u64 w, Bits bits) {
  w = (w & low(4 * bits)) | (w & (low(4 * bits) << (4 * bits))) << (32 - 4 * bits);
  w = (w & in_each(32, low(2 * bits))) | (w & in_each(32, low(2 * bits) << (2 * bits))) << (16 - 2 * bits);
  return (w & in_each(16, low(bits))) | (w & in_each(16, low(bits) << bits)) << (8 - bits);
}

/// The codes of a register of bytes to memory, and back.
template <class Bits>
MXT_LANES void put(std::uint8_t* y, const u8& codes, Bits bits) {
  const u64 w = squeezed((u64)codes, bits);
  if (bits == 4) return store_as(y, __builtin_convertvector(w, native::half_u32));
  std::uint64_t words[width / 8];
  std::memcpy(words, &w, sizeof words);
  for (int i = 0; i < width / 8; ++i) std::memcpy(y + i * bits, &words[i], std::size_t(bits));
}
template <class Bits>
MXT_LANES u8 take(const std::uint8_t* x, Bits bits) {
  u64 w;
  if (bits == 4) {
    w = __builtin_convertvector(load_as<native::half_u32>(x), u64);
  } else {
    std::uint64_t words[width / 8] = {};
    for (int i = 0; i < width / 8; ++i) std::memcpy(&words[i], x + i * bits, std::size_t(bits));
    std::memcpy(&w, words, sizeof words);
  }
  return (u8)spread(w, bits);
}

constexpr std::uint32_t nan_field = 255;
/// 2^(field - 127), NaN for nan_field: scales as E8M0 holds them.
MXT_LANES f32x16 power_of_field(const u32x16& field) {
  const u32x16 unusual = u32x16{} + 0x400000u, power = field << 23;
  const u32x16 normal = select(as_signed(field) == int(nan_field), power | unusual, power);
  return floats(select(as_signed(field) == 0, unusual, normal));
}

MXT_LANES f32x16 power(int exponent) { return all(__builtin_ldexpf(1, exponent)); }

/// A float format's constants in all lanes.
struct Grid16 {
  int mantissa;
  u32x16 below_first;  ///< what the code lacks of f32's exponent and mantissa
  f32x16 steps, step;  ///< of numbers below the normal ones, and their inverse
  f32x16 normal;       ///< the first normal number
  f32x16 largest;

  MXT_LANES Grid16 of(const FloatNumbers& f) {
    return {f.mantissa_bits,
            u32x16{} + (std::uint32_t(f.min_exponent + 126) << f.mantissa_bits),
            power(f.mantissa_bits - f.min_exponent),
            power(f.min_exponent - f.mantissa_bits),
            power(f.min_exponent),
            all(f.largest)};
  }
  /// Of a number of the grid, without its sign. Infinity is the largest number.
  [[gnu::always_inline]] u32x16 code_of(const f32x16& value) const {
    const f32x16 positive = min(magnitude(value), largest);
    const u32x16 low_code = as_unsigned(to_ints(positive * steps));
    return select(positive < normal, low_code,
                  (bits(positive) >> (23u - std::uint32_t(mantissa))) - below_first);
  }
  [[gnu::always_inline]] f32x16 value_of(const u32x16& code) const {
    const f32x16 high = floats((code + below_first) << (23u - std::uint32_t(mantissa)));
    return select(as_signed(code) < (1 << mantissa), to_floats(as_signed(code)) * step, high);
  }
};

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

/// Columns at a time: codes are read as registers a while after they were written lane by lane.
constexpr int chunk = NarrowLoops::chunk;

// First what each column is divided or multiplied by, then row after row, as memory lies.

template <class Bits>
MXT_LANES void pack_columns(std::uint8_t* y, std::uint8_t* scales, float* inverse, const std::uint16_t* x,
                            std::int64_t rows, std::int64_t cols, const FloatNumbers& of, Bits bits_of_code) {
  const Grid16 grid = Grid16::of(of);
  const std::int64_t row_bytes = (cols + 7) / 8 * bits_of_code;
  for (std::int64_t first = 0; first < cols; first += chunk) {
    i32x16 amax[chunk / lanes]{};
    for (std::int64_t r = 0; r < rows; ++r)
      for (int g = 0; g < chunk / lanes; ++g) {
        const std::int64_t c = first + g * lanes;
        amax[g] = max(amax[g], as_signed(load_halves_there(x + r * cols + c, cols - c) & 0x7fffu));
      }
    for (int g = 0; g < chunk / lanes; ++g) {
      const std::int64_t c = first + g * lanes, there = cols - c < lanes ? cols - c : lanes;
      const u32x16 most = as_unsigned(amax[g]) << 16;
      const i32x16 exponent = as_signed((most + of.carry) >> 23) - of.subtract;  // + 127
      const i32x16 number = as_signed(most) <= 0x7f800000;
      const u32x16 field = select(number, as_unsigned(max(exponent, i32x16{})), u32x16{} + nan_field);
      std::uint8_t fields[lanes];
      store_narrow(fields, field);
      if (there > 0) std::memcpy(scales + c, fields, std::size_t(there));
      const u32x16 of_inverse = 254u - field;
      const f32x16 power = floats(select(as_signed(of_inverse) == 0, u32x16{} + 0x400000u, of_inverse << 23));
      store(inverse + c, select(number, power, f32x16{}));  // 0: the block is NaN
    }
  }
  const std::uint32_t sign = std::uint32_t(bits_of_code - 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint16_t* const row = x + r * cols;
    for (std::int64_t c = 0; c < cols; c += chunk) {
      const std::int64_t there = cols - c < chunk ? cols - c : chunk;
      std::uint8_t codes[chunk], some[chunk];
      for (int i = 0; i < chunk; i += lanes) {
        const f32x16 factor = load(inverse + c + i);
        const u32x16 value = load_halves_there(row + c + i, cols - c - i) << 16;
        const u32x16 code = grid.code_of(floats(value) * factor) | value >> 31 << sign;
        store_narrow(codes + i, select(factor == f32x16{}, u32x16{}, code));
      }
      for (int i = 0; i < chunk; i += width)
        put(some + i / 8 * bits_of_code, load_as<u8>(codes + i), bits_of_code);
      std::memcpy(y + r * row_bytes + c / 8 * bits_of_code, some,
                  std::size_t((there + 7) / 8 * bits_of_code));
    }
  }
}

template <class Bits>
MXT_LANES void unpack_columns(std::uint16_t* y, const std::uint8_t* x, const std::uint8_t* scales,
                              float* scale, std::int64_t rows, std::int64_t cols, const FloatNumbers& of,
                              Bits bits_of_code) {
  const Grid16 grid = Grid16::of(of);
  const std::int64_t row_bytes = (cols + 7) / 8 * bits_of_code;
  for (std::int64_t c = 0; c < (cols + chunk - 1) / chunk * chunk; c += lanes) {
    std::uint8_t fields[lanes] = {};
    const std::int64_t there = cols - c < lanes ? cols - c : lanes;
    if (there > 0) std::memcpy(fields, scales + c, std::size_t(there));
    store(scale + c, power_of_field(load_narrow(fields)));
  }
  const std::uint32_t sign = std::uint32_t(bits_of_code - 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint16_t* const row = y + r * cols;
    for (std::int64_t c = 0; c < cols; c += chunk) {
      const std::int64_t there = cols - c < chunk ? cols - c : chunk;
      std::uint8_t codes[chunk], some[chunk] = {};
      std::uint16_t values[chunk];
      std::memcpy(some, x + r * row_bytes + c / 8 * bits_of_code,
                  std::size_t((there + 7) / 8 * bits_of_code));
      for (int i = 0; i < chunk; i += width)
        store_as(codes + i, take(some + i / 8 * bits_of_code, bits_of_code));
      for (int i = 0; i < chunk; i += lanes) {
        const u32x16 code = load_narrow(codes + i);
        const f32x16 value = grid.value_of(code & ((1u << sign) - 1)) * load(scale + c + i);
        store_upper(values + i, bits(value) | code >> sign << 31);
      }
      std::memcpy(row + c, values, std::size_t(there) * sizeof *values);
    }
  }
}

void pack_values(std::uint8_t* y, std::uint8_t* scales, float* scratch, const std::uint16_t* x,
                 std::int64_t rows, std::int64_t cols, FloatNumbers of) {
  with_bits(of.bits, [&](auto bits) { pack_columns(y, scales, scratch, x, rows, cols, of, bits); });
}

void unpack_values(std::uint16_t* y, const std::uint8_t* x, const std::uint8_t* scales, float* scratch,
                   std::int64_t rows, std::int64_t cols, FloatNumbers of) {
  with_bits(of.bits, [&](auto bits) { unpack_columns(y, x, scales, scratch, rows, cols, of, bits); });
}

}  // namespace

extern const NarrowLoops narrow_loops{pack_codes,  unpack_codes, pack_exponents, unpack_exponents,
                                      pack_floats, pack_values,  unpack_values};

}  // namespace mxtape::cpu::MXT_TIER
