#pragma once
#include <array>

#include "core/host_device.h"

namespace mxtape {

/// What a random number is for. Part of the counter, so streams never meet.
enum class Purpose : std::uint32_t {
  rounding = 1,
  dropout = 2,
  initialisation = 3,
  data_order = 4,
  hadamard_signs = 5,
  sampling = 6,
  corpus = 7
};

/// Philox4x32-10 (Salmon et al., SC 2011; Random123): 128 random bits from a counter and a key.
/// No state: nothing to save, nothing to drift, the same on every device and thread count.
MXT_HD constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::uint32_t k0,
                                                     std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {std::uint32_t(p1 >> 32) ^ c[1] ^ k0, std::uint32_t(p1), std::uint32_t(p0 >> 32) ^ c[3] ^ k1,
         std::uint32_t(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// What a DrawKey's step was taken from. A device that repeats a recorded step adds to it what the clock has
/// advanced since.
enum class Clock : std::uint8_t { none, pass, update };

/// Names one stream of draws: which run, which purpose, which tensor, which step.
struct DrawKey {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::rounding;
  std::uint32_t tensor_id = 0;
  std::uint32_t step = 0;  ///< of a pass: (optimizer_step * strands + strand) * accumulation + micro_step
  std::uint64_t first_element = 0;  ///< index of element 0 in the global batch (0 on one device)
  Clock clock = Clock::none;
  bool operator==(const DrawKey&) const = default;

  /// 128 bits for group `g`: eight 16-bit draws or four 32-bit ones.
  MXT_HD constexpr std::array<std::uint32_t, 4> group(std::uint64_t g) const {
    return philox({std::uint32_t(g), (std::uint32_t(g >> 32) & 0xffffu) | std::uint32_t(purpose) << 16,
                   tensor_id, step},
                  std::uint32_t(seed), std::uint32_t(seed >> 32));
  }
  /// The 16 bits of element i (row-major index in the unpadded tensor): eight elements share a call.
  MXT_HD constexpr std::uint32_t bits16(std::uint64_t i) const {
    const std::uint64_t e = first_element + i;
    return group(e >> 3)[e >> 1 & 3] >> (16 * (e & 1)) & 0xffffu;
  }
  /// 32 bits of element i: four elements share a call.
  MXT_HD constexpr std::uint32_t bits32(std::uint64_t i) const {
    const std::uint64_t e = first_element + i;
    return group(e >> 2)[e & 3];
  }
  /// Uniform in [0, 1), a multiple of 2^-24.
  MXT_HD constexpr float uniform(std::uint64_t i) const { return float(bits32(i) >> 8) * 0x1p-24f; }
};

}  // namespace mxtape
