#pragma once
#include "kernels/backend.h"

namespace mxtape {

struct LinearQuant;
struct MxTensor;
struct Parameter;
struct PassKey;

/// A weight [N, K] of which nothing is kept but what the forward pass multiplies by, at the width of its
/// format. It can be evaluated, not trained.
struct PackedWeight {
  QuantizedCopy copy{};   ///< how it was rounded and rotated; with values, if they need no unpacking (bf16)
  PackedTensor packed{};  ///< else the codes
  std::int64_t rows = 0, cols = 0;

  explicit operator bool() const { return rows > 0; }
  Shape shape() const { return {rows, cols}; }
  /// Of all parts on the device.
  std::int64_t bytes() const;
};

/// The codes of the copy of w that ops::linear() with these arguments multiplies by: rotated and rounded by
/// the definitions, on the host. Throws Error(data) if a number has no code (formats/codec/mx_tensor.h).
MxTensor pack_weight(Backend&, const Parameter& w, const LinearQuant&, const PassKey&,
                     std::uint32_t tensor_id);

/// Such codes on the device, for a weight of that version. Throws Error(data) if they are in another format
/// than the layer's, or the sizes do not fit.
PackedWeight packed_weight(Backend&, const MxTensor&, const LinearQuant&, const PassKey&,
                           std::uint32_t tensor_id, std::uint64_t weight_version);

/// The copy itself: unpacked into memory that is free again when the result goes. Throws Error(internal) if
/// the codes are not those of `wanted`.
QuantizedCopy unpacked(Backend&, const PackedWeight&, const QuantizedCopy& wanted);

}  // namespace mxtape
