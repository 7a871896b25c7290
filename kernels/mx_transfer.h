#pragma once
#include "formats/codec/mx_tensor.h"
#include "kernels/backend.h"

namespace mxtape {

/// To the device and back, byte for byte, where the layout is `stored`. Both wait for the device. upload()
/// throws Error(data) if the sizes of t's arrays do not fit.
Rounded upload(Backend&, const MxTensor& t);
MxTensor download(Backend&, const Rounded&);

/// formats/codec/mx_tensor.h's pack() and unpack() of what is on the host, done by a device.
MxTensor pack(Backend&, const float* x, std::int64_t rows, std::int64_t cols, Axis, const Quantizer&,
              const DrawKey&);
void unpack(Backend&, float* y, const MxTensor& t);

/// Rows of the strips in which devices share matrices: whole blocks along either axis.
inline constexpr std::int64_t strip_rows = 32;

}  // namespace mxtape
