#pragma once
#include <cstdint>
#include <vector>

#include "formats/quantize.h"

namespace mxtape {

/// A matrix as it is stored: codes of the elements in row-major order, and per block a scale and, if the
/// quantizer has one, an FP16 offset, in row-major order of the block grid.
struct MxTensor {
  Quantizer quantizer;
  Axis axis = Axis::row;
  std::int64_t rows = 0, cols = 0;
  std::vector<std::uint8_t> codes;     ///< pack_bits of element codes
  std::vector<std::uint8_t> scales;    ///< per block, in bytes: its code; f32: 4 bytes
  std::vector<std::uint16_t> offsets;  ///< per block, if there are: FP16 bits, or steps as signed integers
  float multiplier = 1;                ///< true value = element * scale * multiplier + offset

  /// Bytes of codes, scales, offsets and the multiplier.
  std::int64_t bytes() const;
  /// Throws Error(data) if the sizes of the arrays do not fit.
  void check() const;
  /// Whether codes and scales mean what a format's do, by whatever rule they were rounded: blocks, of several
  /// rows too, are whole along rows.
  bool is_coded_as(const Quantizer& format) const;
  /// Some of the rows, each with scales of its own. Blocks lie along rows; a row's codes are whole bytes.
  MxTensor slice(std::int64_t first_row, std::int64_t count) const;
};

/// Rounds x [rows, cols] and stores the codes. Throws Error(data) if a number cannot be stored: NaN in a
/// plain cast to a format without NaN. The codes of a block that is NaN are zero.
MxTensor pack(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
              const DrawKey& key);
/// The same for callers that throw later: first_uncoded becomes the index of the first element of which a NaN
/// is lost, -1 if there is none. Such elements, or the scales of their blocks, are stored as encode() says.
MxTensor pack(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
              const DrawKey& key, std::int64_t& first_uncoded);
/// The same with given random bits, as quantize_with_draws.
MxTensor pack_with_draws(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
                         std::span<const std::uint32_t> draws);
/// Throws Error(usage) if q cannot be stored: with outer=axis or N.
void require_packable(const Quantizer& q);
/// Throws Error(data) that names the element, if it is not -1.
void require_codes(std::int64_t first_uncoded, const Quantizer& q);

/// The values [rows, cols] that quantize_reference gives for the same arguments, so that a GEMM still has to
/// multiply by t.multiplier. Equal bits, except that integers have no negative zero. Throws Error(data) if
/// the sizes of t's arrays do not fit.
void unpack(float* y, const MxTensor& t);

}  // namespace mxtape
