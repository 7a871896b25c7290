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

void CpuBackend::compute(const call::Unpack& call) {
  check_packed("unpack", call.x, call.y);
  const auto bytes = [](const Tensor& part) {
    const auto* const first = part.data<std::uint8_t>();
    return std::vector<std::uint8_t>(first, first + (part ? part.count() : 0));
  };
  mxtape::unpack(call.y.data(), {call.x.quantizer, call.x.axis, call.x.rows, call.x.cols, bytes(call.x.codes),
                                 bytes(call.x.scales), words_of(bytes(call.x.offsets))});
}

}  // namespace mxtape
