#include "kernels/cpu/loops/packed_values_loops.h"

#include "kernels/cpu/loops/packed_bits.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

/// Columns at a time: codes are read as registers a while after they were written lane by lane.
constexpr int chunk = PackedValuesLoops::chunk;

/// Sixteen bf16 numbers, of which `there` are there: all, if the compiler knows it.
template <class Whole>
MXT_LANES u32x16 load_some(const std::uint16_t* x, std::int64_t there, Whole whole) {
  if (whole || there >= lanes) return load_halves(x);
  std::uint16_t s[lanes] = {};
  if (there > 0) std::memcpy(s, x, std::size_t(there) * sizeof *s);
  return load_halves(s);
}
template <class T>
MXT_LANES void copy_first(T* y, const T* x, std::int64_t count) {
  std::memcpy(y, x, std::size_t(count) * sizeof(T));
}

/// body(c, whether a whole chunk is there) for c = 0, 64, 128 ... below cols.
template <class Body>
MXT_LANES void for_chunks(std::int64_t cols, const Body& body) {
  std::int64_t c = 0;
  for (; c + chunk <= cols; c += chunk) body(c, std::true_type{});
  if (c < cols) body(c, std::false_type{});
}

// First what each column is divided or multiplied by, then row after row, as memory lies.

template <class Bits>
MXT_LANES void pack_columns(std::uint8_t* y, std::uint8_t* scales, float* inverse, const std::uint16_t* x,
                            std::int64_t rows, std::int64_t cols, const FloatNumbers& of, Bits bits_of_code) {
  const Grid16 grid = Grid16::of(of);
  const std::int64_t row_bytes = (cols + 7) / 8 * bits_of_code;
  for_chunks(
      cols, [&](std::int64_t first, auto whole) __attribute__((always_inline)) {
        i32x16 amax[chunk / lanes]{};
        for (std::int64_t r = 0; r < rows; ++r)
          for (int g = 0; g < chunk / lanes; ++g) {
            const std::int64_t c = first + g * lanes;
            amax[g] = max(amax[g], as_signed(load_some(x + r * cols + c, cols - c, whole) & 0x7fffu));
          }
        for (int g = 0; g < chunk / lanes; ++g) {
          const std::int64_t c = first + g * lanes, there = cols - c < lanes ? cols - c : lanes;
          const u32x16 most = as_unsigned(amax[g]) << 16;
          const i32x16 exponent = as_signed((most + of.carry) >> 23) - of.subtract;  // + 127
          const i32x16 number = as_signed(most) <= 0x7f800000;
          const u32x16 field = select(number, as_unsigned(max(exponent, i32x16{})), u32x16{} + nan_field);
          std::uint8_t fields[lanes];
          store_narrow(fields, field);
          if (there > 0) copy_first(scales + c, fields, there);
          const u32x16 of_inverse = 254u - field;
          const f32x16 power =
              floats(select(as_signed(of_inverse) == 0, u32x16{} + 0x400000u, of_inverse << 23));
          store(inverse + c, select(number, power, f32x16{}));  // 0: the block is NaN
        }
      });
  const std::uint32_t sign = std::uint32_t(bits_of_code - 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint16_t* const row = x + r * cols;
    for_chunks(
        cols, [&](std::int64_t c, auto whole) __attribute__((always_inline)) {
          std::uint8_t codes[chunk], some[chunk];
          for (int i = 0; i < chunk; i += lanes) {
            const f32x16 factor = load(inverse + c + i);
            const u32x16 value = load_some(row + c + i, cols - c - i, whole) << 16;
            const u32x16 code = grid.code_of(floats(value) * factor) | value >> 31 << sign;
            store_narrow(codes + i, select(factor == f32x16{}, u32x16{}, code));
          }
          std::uint8_t* const to = y + r * row_bytes + c / 8 * bits_of_code;
          std::uint8_t* const out = whole ? to : some;
          for (int i = 0; i < chunk; i += width)
            put(out + i / 8 * bits_of_code, load_as<u8>(codes + i), bits_of_code);
          if (!whole) copy_first(to, some, (cols - c + 7) / 8 * bits_of_code);
        });
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
    if (there > 0) copy_first(fields, scales + c, there);
    store(scale + c, power_of_field(load_narrow(fields)));
  }
  const std::uint32_t sign = std::uint32_t(bits_of_code - 1);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint16_t* const row = y + r * cols;
    for_chunks(
        cols, [&](std::int64_t c, auto whole) __attribute__((always_inline)) {
          std::uint8_t codes[chunk], some[chunk] = {};
          std::uint16_t values[chunk];
          const std::uint8_t* const from = x + r * row_bytes + c / 8 * bits_of_code;
          if (!whole) copy_first(some, from, (cols - c + 7) / 8 * bits_of_code);
          const std::uint8_t* const in = whole ? from : some;
          for (int i = 0; i < chunk; i += width)
            store_as(codes + i, take(in + i / 8 * bits_of_code, bits_of_code));
          std::uint16_t* const out = whole ? row + c : values;
          for (int i = 0; i < chunk; i += lanes) {
            const u32x16 code = load_narrow(codes + i);
            const f32x16 value = grid.value_of(code & ((1u << sign) - 1)) * load(scale + c + i);
            store_upper(out + i, bits(value) | code >> sign << 31);
          }
          if (!whole) copy_first(row + c, values, cols - c);
        });
  }
}

/// Calls run(bits), known to the compiler for the widths of the presets.
template <class Run>
MXT_LANES void with_bits(int bits, const Run& run) {
  if (bits == 4) return run(Known<4>{});
  if (bits == 6) return run(Known<6>{});
  if (bits == 8) return run(Known<8>{});
  run(bits);
}

void pack(std::uint8_t* y, std::uint8_t* scales, float* scratch, const std::uint16_t* x, std::int64_t rows,
          std::int64_t cols, FloatNumbers of) {
  with_bits(
      of.bits, [&](auto bits) __attribute__((always_inline)) {
        pack_columns(y, scales, scratch, x, rows, cols, of, bits);
      });
}

void unpack(std::uint16_t* y, const std::uint8_t* x, const std::uint8_t* scales, float* scratch,
            std::int64_t rows, std::int64_t cols, FloatNumbers of) {
  with_bits(
      of.bits, [&](auto bits) __attribute__((always_inline)) {
        unpack_columns(y, x, scales, scratch, rows, cols, of, bits);
      });
}

}  // namespace

extern const PackedValuesLoops packed_values_loops{pack, unpack};

}  // namespace mxtape::cpu::MXT_TIER
