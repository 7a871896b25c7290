#include <algorithm>
#include <limits>

#include "formats/codec/block_codec.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/codec/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

// By formats/codec/mx_tensor.h, the definition, on one thread: for storage and transport, not inside a step.
void CpuBackend::compute(const call::Pack& call) {
  check_pack(call.y, call.x);
  std::int64_t first_uncoded = -1;
  const MxTensor t = mxtape::pack(call.x.data(), call.y.rows, call.y.cols, call.y.axis, call.y.quantizer,
                                  call.draws, first_uncoded);
  std::copy(t.codes.begin(), t.codes.end(), call.y.codes.data<std::uint8_t>());
  std::copy(t.scales.begin(), t.scales.end(), call.y.scales.data<std::uint8_t>());
  const auto offsets = bytes_of(t.offsets);
  std::copy(offsets.begin(), offsets.end(), call.y.offsets.data<std::uint8_t>());
  if (call.y.multiplier) *call.y.multiplier.data() = t.multiplier;
  *call.y.first_uncoded.data<std::int32_t>() =
      std::int32_t(std::min<std::int64_t>(first_uncoded, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace mxtape
