#pragma once
#include <algorithm>
#include <vector>

#include "core/error.h"
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

/// The numbers of x, f32 or bf16, on the host.
inline std::vector<float> downloaded(Backend& backend, const Tensor& x) {
  std::vector<float> values(std::size_t(x.count()));
  if (x.dtype() == DType::f32) {
    backend.download(values.data(), x);
    return values;
  }
  require(x.dtype() == DType::bf16, "download: numbers in {}; want f32 or bf16", name_of(x.dtype()));
  std::vector<bf16> narrow(values.size());
  backend.download(narrow.data(), x);
  std::transform(narrow.begin(), narrow.end(), values.begin(), [](bf16 v) { return to_f32(v); });
  return values;
}

}  // namespace mxtape
