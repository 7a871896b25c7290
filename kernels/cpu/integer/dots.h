#pragma once
#include <cstdint>
#include <string_view>

namespace mxtape::cpu {

/// One side of a product of codes (kernels/gemm_codes.h), from a panel on.
struct DotsSide {
  const std::int8_t* codes;
  const float* scales;
  std::int64_t panel_codes, panel_scales;  ///< from a panel to the next
  int largest = 127;                       ///< no code is beyond
};

/// Codes are signed bytes but -128; the longest segment.
inline constexpr int longest_segment = 1040;

/// c[m, n] = sum * factor + bias[n] (+ c[m, n]), where factor and bias may be missing, and
///   sum = fma(t_1 sa_1[m], sb_1[n], fma(t_0 sa_0[m], sb_0[n], 0)) ...
/// over segments of `segment` codes, first to last, in f32; t_s is the exact sum of the segment's products of
/// codes, as f32. The product of t_s and both scales is exact unless it is subnormal, so that fusing it with
/// the sum saves an instruction and no rounding. Where a scale is 0, codes are. This is all that a tier may
/// compute: sums of integers in any order, sums of f32 in this one.
struct DotsJob {
  DotsSide a, b;
  std::int64_t rows, cols;
  std::int64_t depth;  ///< whole groups
  int segment;         ///< both sides' scales are one per so many codes
  float* c;
  std::int64_t c_stride;
  bool accumulate;
  const float* factor;  ///< null: none
  const float* bias;    ///< null: none
};

/// Memory that a tier may use for a job.
struct DotsScratch {
  std::int32_t* words;  ///< [panels of a][segments][2][16]
  float* partial;       ///< [rows, up to the next multiple of 4][most_cols]
  static constexpr int most_cols = 48;
};

/// Instruction sets with a kernel for byte dot products.
enum class DotTier : std::uint8_t { portable, avx2, avx_vnni, avx512_vnni, neon, sdot };

/// The best of this machine, unless set_dot_tier() chose another.
DotTier dot_tier();
/// For tests and benchmarks. Throws Error(usage) if this machine does not have it.
void set_dot_tier(DotTier);
bool has_dot_tier(DotTier);
std::string_view name_of(DotTier);

/// Computes a job on the calling thread.
void multiply_codes(const DotsJob&);
/// The same by the definition, in plain loops.
void multiply_codes_plainly(const DotsJob&);

}  // namespace mxtape::cpu
