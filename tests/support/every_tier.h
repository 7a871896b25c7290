#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/loops/tier.h"
#include "kernels/cpu/pairs/pairs.h"
#include "tests/support/device.h"

namespace mxtape::test {

inline std::vector<cpu::Tier> tiers_of_this_machine() {
  std::vector<cpu::Tier> tiers;
  for (const cpu::Tier t : {cpu::Tier::baseline, cpu::Tier::avx2, cpu::Tier::avx512})
    if (cpu::has_tier(t)) tiers.push_back(t);
  return tiers;
}

/// Without one whose products of f32 are rounded, unless there is none else.
inline std::vector<cpu::Tier> tiers_with_fma() {
  std::vector<cpu::Tier> tiers = tiers_of_this_machine();
  if (tiers.size() > 1) tiers.erase(tiers.begin());
  return tiers;
}

inline std::vector<cpu::PairTier> pair_tiers_of_this_machine() {
  std::vector<cpu::PairTier> tiers;
  for (const auto t : {cpu::PairTier::loops, cpu::PairTier::avx512_bf16, cpu::PairTier::amx_bf16})
    if (cpu::has_pair_tier(t)) tiers.push_back(t);
  return tiers;
}
inline std::string name_of(cpu::PairTier t) {
  return t == cpu::PairTier::loops ? "loops" : t == cpu::PairTier::amx_bf16 ? "AMX" : "AVX-512 BF16";
}
/// Pairs are multiplied so while it lives.
struct InPairs {
  explicit InPairs(cpu::PairTier t) { cpu::set_pair_tier(t); }
  ~InPairs() { cpu::set_pair_tier(best); }
  const cpu::PairTier best = cpu::pair_tier();
};

/// Runs `compute` (which returns std::vector<float>) on every tier, with 1, 2 and 3 threads, or once more
/// where the device is not the CPU, and expects the same bits each time. NaNs count by their bits too.
template <class Compute>
void expect_same_bits_everywhere(const Compute& compute,
                                 const std::vector<cpu::Tier>& every = tiers_of_this_machine()) {
  const cpu::Tier best = cpu::tier();
  const int before = threads();
  const std::vector<float> want = compute();
  const auto tiers = device_is_cpu() ? every : std::vector{best};
  const auto counts = device_is_cpu() ? std::vector{1, 2, 3} : std::vector{before};
  for (const cpu::Tier t : tiers)
    for (const int count : counts) {
      cpu::set_tier(t);
      set_threads(count);
      const std::vector<float> got = compute();
      EXPECT_EQ(got.size(), want.size());
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
          << "differs on " << cpu::name_of(t) << " with " << count << " threads";
    }
  cpu::set_tier(best);
  set_threads(before);
}

inline std::vector<float>& append(std::vector<float>& all, const std::vector<float>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace mxtape::test
