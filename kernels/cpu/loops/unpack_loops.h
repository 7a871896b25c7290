#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// Codes of one row, as formats/codec/codec.h packs them, `bits` (at most 8) bits each from the start of a
/// byte on. Each vector of sixteen lies in one block.
struct CodedRow {
  const std::uint8_t* codes;
  int bits;
  const float* values;   ///< what each of the 2^bits codes stands for
  const float* scales;   ///< of each vector
  const float* offsets;  ///< of each vector; null: none
};

/// The vector loops of unpack: y[0 .. count) = value_of(scale and offset, the code's value); count is a
/// multiple of 16. For each 8 codes 8 bytes are read, of which they fill `bits`.
struct UnpackLoops {
  void (*to_f32)(float* y, const CodedRow&, std::int64_t count);
  /// Nearest even, as to_bf16().
  void (*to_bf16)(std::uint16_t* y, const CodedRow&, std::int64_t count);
};

MXT_TIER_TABLE(UnpackLoops, unpack_loops)

}  // namespace mxtape::cpu
