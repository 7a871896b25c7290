#pragma once
#include "autograd/tape.h"

namespace mxtape {

/// A quantized copy that waits for backward, packed if the tape keeps such copies packed and its format has a
/// packed form (kernels/codec/packed_copy.h). Memory of its own goes as soon as nothing else holds it.
class SavedCopy {
 public:
  SavedCopy() = default;
  /// `copy` [rows, K] of x; without values it stays as it is.
  SavedCopy(const Tape&, QuantizedCopy copy, const Shape& x);

  std::int64_t bytes() const;
  /// The copy, bit for bit; what was kept goes. Without values if it had none.
  QuantizedCopy take(Backend&);

 private:
  QuantizedCopy copy_;
  PackedCopy packed_;
  Shape x_;
};

/// x, or if the tape packs an f32 x in bf16, rounded to nearest even. For what backward rounds to bf16 itself
/// before any other use: rounding twice gives the same bits.
Tensor kept_in_bf16(const Tape&, const Tensor& x);
/// x in `dtype`, itself if it has that.
Tensor as_type(Backend&, const Tensor& x, DType dtype);

}  // namespace mxtape
