#include "kernels/cpu/loops/unpack_loops.h"

#include "kernels/cpu/loops/choose_rounding.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

/// Codes looked up before the first of them is multiplied: a vector that is read just after its lanes were
/// written one by one would wait for them.
constexpr int ahead = 256;

/// `bits` is row.bits, known to the compiler for the widths that there are formats of.
template <class Bits>
MXT_LANES void look_up(float* values, const std::uint8_t* from, const CodedRow& row, int count, Bits bits) {
  const std::uint32_t mask = (1u << bits) - 1;
  const float* const listed = row.values;
  for (int i = 0; i < count; i += 8, from += bits) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    float eight[8];
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) eight[k] = listed[std::uint32_t(word >> (k * bits)) & mask];
    std::memcpy(values + i, eight, sizeof eight);
  }
}
template <class Store>
MXT_LANES void unpack(const CodedRow& row, std::int64_t count, const Store& store) {
  float values[ahead];
  for (std::int64_t first = 0; first < count; first += ahead) {
    const int part = count - first < ahead ? int(count - first) : ahead;
    with_bits(row.bits, [&](auto bits) { look_up(values, row.codes + first / 8 * bits, row, part, bits); });
    for (int i = 0; i < part; i += lanes) {
      const std::int64_t vector = (first + i) / lanes;
      f32x16 v = load(values + i) * row.scales[vector];
      // As value_of(): x + 0 would lose the sign of a zero.
      if (row.offsets && row.offsets[vector] != 0) v = v + row.offsets[vector];
      store(first + i, v);
    }
  }
}

void unpack_to_f32(float* y, const CodedRow& row, std::int64_t count) {
  unpack(row, count, [&](std::int64_t i, const f32x16& v) { store(y + i, v); });
}

void unpack_to_bf16(std::uint16_t* y, const CodedRow& row, std::int64_t count) {
  unpack(row, count, [&](std::int64_t i, const f32x16& v) { store_upper(y + i, nearest_bf16(bits(v))); });
}

}  // namespace

extern const UnpackLoops unpack_loops{unpack_to_f32, unpack_to_bf16};

}  // namespace mxtape::cpu::MXT_TIER
