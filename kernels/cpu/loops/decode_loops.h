#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// Panels of codes that lie one after another (kernels/gemm_codes.h), or the same part of each one's depth.
struct CodePanels {
  const std::int8_t* codes;
  const float* scales;
  std::int64_t panel_codes, panel_scales;  ///< from a panel to the next
  std::int64_t lines, depth;               ///< of all panels together; the last one may have fewer
  int along;                               ///< a multiple of 16; depth starts with a block
};

/// y = number * multiplier, one multiplication after the other; in bf16 to nearest even, as to_bf16().
template <class Y>
struct DecodeLoopsTo {
  /// Lines are rows of y, `stride` apart; or its columns.
  void (*rows)(Y* y, std::int64_t stride, const CodePanels&, float multiplier);
  void (*columns)(Y* y, std::int64_t stride, const CodePanels&, float multiplier);
  /// y may be x.
  void (*from_f32)(Y* y, const float* x, std::int64_t count, float multiplier);
  void (*from_bf16)(Y* y, const std::uint16_t* x, std::int64_t count, float multiplier);
};
struct DecodeLoops {
  DecodeLoopsTo<float> to_f32;
  DecodeLoopsTo<std::uint16_t> to_bf16;
};

MXT_TIER_TABLE(DecodeLoops, decode_loops)

}  // namespace mxtape::cpu
