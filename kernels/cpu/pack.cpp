#include <algorithm>
#include <limits>

#include "formats/block_codec.h"
#include "formats/mx_tensor.h"
#include "kernels/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

// By formats/mx_tensor.h, the definition, on one thread: for storage and transport, not inside a step.
void CpuBackend::pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) {
  check_pack(y, x);
  require(x.dtype() == DType::f32, "pack: x is {}; want f32", name_of(x.dtype()));
  std::int64_t first_uncoded = -1;
  const MxTensor t = mxtape::pack(x.data(), y.rows, y.cols, y.axis, y.quantizer, draws, first_uncoded);
  std::copy(t.codes.begin(), t.codes.end(), y.codes.data<std::uint8_t>());
  std::copy(t.scales.begin(), t.scales.end(), y.scales.data<std::uint8_t>());
  const auto offsets = bytes_of(t.offsets);
  std::copy(offsets.begin(), offsets.end(), y.offsets.data<std::uint8_t>());
  if (y.multiplier) *y.multiplier.data() = t.multiplier;
  *y.first_uncoded.data<std::int32_t>() =
      std::int32_t(std::min<std::int64_t>(first_uncoded, std::numeric_limits<std::int32_t>::max()));
}

void CpuBackend::unpack(const Tensor& y, const PackedTensor& x) {
  check_packed("unpack", x, y);
  require(y.dtype() == DType::f32, "unpack: y is {}; want f32", name_of(y.dtype()));
  const auto bytes = [](const Tensor& part) {
    const auto* const first = part.data<std::uint8_t>();
    return std::vector<std::uint8_t>(first, first + (part ? part.count() : 0));
  };
  mxtape::unpack(y.data(), {x.quantizer, x.axis, x.rows, x.cols, bytes(x.codes), bytes(x.scales),
                            words_of(bytes(x.offsets))});
}

}  // namespace mxtape
