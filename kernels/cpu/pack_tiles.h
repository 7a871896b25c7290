#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "formats/block.h"
#include "formats/quantize.h"

namespace mxtape::cpu {

/// Packs strips of a matrix by the vector loops of quantize: elements of 8 bits or less whose blocks have
/// power-of-two scales and lie in one line.
class TilePacker {
 public:
  /// Rows of a strip, at most.
  static constexpr int most_rows = 32;

  static bool takes(const Quantizer&);
  TilePacker(const Quantizer&, Axis);

  /// The bytes of formats/codec/mx_tensor.h's pack() of x [rows, cols], whose first element `draws` counts as
  /// its first. False if a block is not finite: that is left to the definition.
  bool pack(std::uint8_t* codes, std::uint8_t* scales, const float* x, int rows, std::int64_t cols,
            const DrawKey& draws) const;

 private:
  bool round(std::uint16_t* elements, std::uint8_t* scales, const float* x, int rows, std::int64_t first_col,
             int cols, std::int64_t all_cols, const DrawKey&) const;

  Quantizer quantizer_;
  Axis axis_;
  BlockRule rule_;
  std::vector<std::uint8_t> code_of_;  // by the upper half of an element's bits as f32
};

}  // namespace mxtape::cpu
