#include <algorithm>

#include "core/parallel.h"
#include "kernels/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/decode_loops.h"
#include "kernels/cpu/stored.h"
#include "kernels/gemm_codes.h"

namespace mxtape {
namespace {

/// Codes to values, in parts that end with panels and blocks.
template <class Y>
void decode_panels(Y* y, const Rounded& x, const cpu::DecodeLoopsTo<Y>& loops, float multiplier) {
  const CodeLayout at = code_layout(x);
  const bool rows = x.by.axis == Axis::row;  // are lines
  // Long runs of y: whole rows, or a page of each.
  const std::int64_t lines = rows ? CodeLayout::panel : 64 * CodeLayout::panel,
                     depth = rows ? at.depth : (64 + at.along - 1) / at.along * at.along;
  const std::int64_t deep = depth > 0 ? (at.depth + depth - 1) / depth : 0;
  parallel_for((at.lines + lines - 1) / lines * deep, 1, [&](std::int64_t part, std::int64_t) {
    const std::int64_t line = part / deep * lines, k = part % deep * depth;
    const cpu::CodePanels panels{static_cast<const std::int8_t*>(x.elements.raw()) + at.code_at(line, k),
                                 x.scales.data() + at.scale_at(line, k / at.along),
                                 at.padded_depth() * CodeLayout::panel,
                                 at.blocks() * CodeLayout::panel,
                                 std::min(lines, at.lines - line),
                                 std::min(depth, at.depth - k),
                                 at.along};
    if (rows)
      loops.rows(y + line * at.depth + k, at.depth, panels, multiplier);
    else
      loops.columns(y + k * at.lines + line, at.lines, panels, multiplier);
  });
}

template <class Y>
void recode(Y* y, const Rounded& from, const Tensor& x, const cpu::DecodeLoopsTo<Y>& loops,
            float multiplier) {
  if (from.layout == Layout::codes) return decode_panels(y, from, loops, multiplier);
  constexpr std::int64_t work = 1 << 16;  // numbers that pay for handing out a range
  parallel_for(x.count(), work, [&](std::int64_t begin, std::int64_t end) {
    if (x.dtype() == DType::bf16)
      loops.from_bf16(y + begin, static_cast<const std::uint16_t*>(x.raw()) + begin, end - begin, multiplier);
    else
      loops.from_f32(y + begin, x.data() + begin, end - begin, multiplier);
  });
}

}  // namespace

void CpuBackend::compute(const call::Recode& call) {
  check_recode(call);
  if (is_narrow(call.to.layout)) return cpu::narrow(call.to, call.from);
  if (is_narrow(call.from.layout)) return cpu::widen(call.to, call.from);
  const bool stored = call.from.layout == Layout::stored;
  if (stored) cpu::unpack(call.to, call.from);
  const bool multiplied = call.from.multiplier && !call.to.multiplier;
  if (stored && !multiplied) return;
  const Tensor &y = call.to.elements, &x = stored ? y : call.from.elements;
  const float multiplier = multiplied ? *call.from.multiplier.data() : 1.0f;
  if (y.dtype() == DType::bf16)
    recode(static_cast<std::uint16_t*>(y.raw()), call.from, x, cpu::decode_loops().to_bf16, multiplier);
  else
    recode(y.data(), call.from, x, cpu::decode_loops().to_f32, multiplier);
}

}  // namespace mxtape
