#pragma once
#include "formats/codec/mx_tensor.h"
#include "kernels/backend.h"

namespace mxtape {

/// Room for a packed [rows, cols].
PackedTensor empty_packed(Backend&, const Quantizer&, Axis, std::int64_t rows, std::int64_t cols);

/// Rows [first, first + count) of a packed matrix, in its memory: codes and scales lie there row by row. Both
/// ends are those of blocks, and of bytes.
PackedTensor rows_of(const PackedTensor& whole, std::int64_t first, std::int64_t count);

/// To the device and back, byte for byte. Both wait for the device. upload() throws Error(data) if the sizes
/// of t's arrays do not fit; download() if a number of the source had no code, as formats/codec/mx_tensor.h's
/// pack().
PackedTensor upload(Backend&, const MxTensor& t);
MxTensor download(Backend&, const PackedTensor&);

/// formats/codec/mx_tensor.h's pack() and unpack() of what is on the host, done by a device.
MxTensor pack(Backend&, const float* x, std::int64_t rows, std::int64_t cols, Axis, const Quantizer&,
              const DrawKey&);
void unpack(Backend&, float* y, const MxTensor& t);

}  // namespace mxtape
