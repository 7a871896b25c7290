#pragma once
#include <array>
#include <cstdint>

#include "core/random.h"

namespace mxtape::cuda {

/// A DrawKey whose step follows a clock in device memory, if `clock` is not null: key.step is then the
/// distance from it.
struct ClockedKey {
  DrawKey key;
  const std::int32_t* clock = nullptr;
};

/// The key as it is now. In kernels only: reads device memory.
MXT_HD DrawKey now(const ClockedKey& clocked) {
  DrawKey key = clocked.key;
  if (clocked.clock) key.step += std::uint32_t(*clocked.clock);
  return key;
}

/// What philox() makes of a seed for each of its rounds. As a kernel's argument it takes neither registers
/// nor instructions, and the generator gets by with two thirds of them.
struct RoundKeys {
  std::array<std::array<std::uint32_t, 2>, 10> rounds;
};
constexpr RoundKeys round_keys(std::uint64_t seed) {
  RoundKeys keys{};
  auto k0 = std::uint32_t(seed), k1 = std::uint32_t(seed >> 32);
  for (auto& round : keys.rounds) {
    round = {k0, k1};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return keys;
}

/// key.group(g), `keys` being round_keys(key.seed).
MXT_HD constexpr std::array<std::uint32_t, 4> group_of(const DrawKey& key, const RoundKeys& keys,
                                                       std::uint64_t g) {
  std::uint32_t c[] = {std::uint32_t(g),
                       (std::uint32_t(g >> 32) & 0xffffu) | std::uint32_t(key.purpose) << 16, key.tensor_id,
                       key.step};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c[0] = std::uint32_t(p1 >> 32) ^ c[1] ^ keys.rounds[round][0];
    c[1] = std::uint32_t(p1);
    c[2] = std::uint32_t(p0 >> 32) ^ c[3] ^ keys.rounds[round][1];
    c[3] = std::uint32_t(p0);
  }
  return {c[0], c[1], c[2], c[3]};
}
constexpr DrawKey some_key{.seed = 0x123456789abcdef0u, .tensor_id = 5, .step = 2};
static_assert(group_of(some_key, round_keys(some_key.seed), 0x300000001u) == some_key.group(0x300000001u));

}  // namespace mxtape::cuda
