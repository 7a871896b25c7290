#include "kernels/cpu/loops/tier.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "core/error.h"

namespace mxtape::cpu {
namespace {

std::atomic<Tier>& current() {
  static std::atomic<Tier> chosen{has_tier(Tier::avx512) ? Tier::avx512
                                  : has_tier(Tier::avx2) ? Tier::avx2
                                                         : Tier::baseline};
  return chosen;
}

}  // namespace

bool may_use(std::string_view set) {
  static constexpr std::string_view sets[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx_bf16"};
  static const auto most = [] {
    const char* const named = std::getenv("MXTAPE_MAX_CPU");
    const auto* const found = named ? std::ranges::find(sets, named) : std::end(sets) - 1;
    require(found != std::end(sets), ExitCode::usage, "MXTAPE_MAX_CPU is '{}'; want one of {}",
            named ? named : "", fmt::join(sets, ", "));
    return found;
  }();
  return std::ranges::find(sets, set) <= most;
}

bool has_tier(Tier t) {
  if (!may_use(name_of(t))) return false;
#if defined(__x86_64__)
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (t == Tier::avx2) return avx2;
  if (t == Tier::avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#endif
  return t == Tier::baseline;
}

Tier tier() { return current().load(std::memory_order_relaxed); }

void set_tier(Tier t) {
  require(has_tier(t), ExitCode::usage, "cpu: this machine has no {}", name_of(t));
  current().store(t, std::memory_order_relaxed);
}

std::string_view name_of(Tier t) {
  constexpr std::string_view names[] = {"baseline", "avx2", "avx512"};
  return names[static_cast<int>(t)];
}

}  // namespace mxtape::cpu
