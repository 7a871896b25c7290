#pragma once
#include "kernels/cuda/device.cuh"

// Rows of scores with the arithmetic of the CPU's vector loops (kernels/cpu/loops/simd_math.h, for_lanes.h,
// attention_loops.cpp): sixteen lanes, the same operations, the same order of additions, so that what is
// quantized next has the same bits on both.
namespace mxtape::cuda {

inline constexpr int row_lanes = 16;  // of a warp: it has two rows

/// e^x as the CPU's exp(), within 1 ulp.
__device__ inline float exp_as_cpu(float x) {
  constexpr float round_to_integer = 0x1.8p23f, log2_e = 0x1.715476p+0f;
  constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  const float shifted = x * log2_e + round_to_integer, n = shifted - round_to_integer;
  const float r = (x - n * ln2_high) - n * ln2_low;
  const float tail =
      (((r * 0x1.6a234ep-10f + 0x1.123a6cp-7f) * r + 0x1.5558f4p-5f) * r + 0x1.555490p-3f) * r +
      0x1.fffffcp-2f;
  const float value = ((r * r * tail + r) + 1.0f) * float_of((bits_of(shifted) + 127u) << 23);
  return x < -87.3f ? 0.0f : x > 88.3f ? float_of(0x7f800000u) : value;
}

}  // namespace mxtape::cuda
