#include "kernels/cpu/pairs/pairs.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

#if defined(__x86_64__)
namespace avx512_bf16 {
extern const PairLoops pair_loops;
}
namespace amx_bf16 {
extern const PairLoops pair_loops;
}
#endif

namespace {

#if defined(__x86_64__)
/// Asks the system for AMX's registers, which a process has to (Linux, arch/x86/include/uapi/asm/prctl.h).
bool get_amx() {
  constexpr long request = 0x1023, tile_data = 18;
  return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         syscall(SYS_arch_prctl, request, tile_data) == 0;
}
#endif

std::atomic<PairTier>& current() {
  using enum PairTier;
#if defined(__x86_64__)
  // A dot product of bf16 takes Intel's CPUs two cycles, an fma half a cycle (118 and 236 GFLOP/s a core of a
  // Xeon with AMX, whose 6 x 384 step takes 0.69 of the time by loops). On Zen 4 it has twice an fma's rate.
  const auto gains = [] { return has_pair_tier(avx512_bf16) && !__builtin_cpu_is("intel"); };
  static std::atomic chosen{has_pair_tier(amx_bf16) ? amx_bf16 : gains() ? avx512_bf16 : loops};
#else
  static std::atomic chosen{loops};
#endif
  return chosen;
}

}  // namespace

bool has_pair_tier(PairTier t) {
#if defined(__x86_64__)
  static const bool dots =
      has_tier(Tier::avx512) && may_use("avx512_bf16") && __builtin_cpu_supports("avx512bf16");
  static const bool tiles = dots && may_use("amx_bf16") && get_amx();
  if (t != PairTier::loops) return t == PairTier::amx_bf16 ? tiles : dots;
#endif
  return t == PairTier::loops;
}

PairTier pair_tier() { return current().load(std::memory_order_relaxed); }
void set_pair_tier(PairTier t) { current().store(t, std::memory_order_relaxed); }

const PairLoops& best_pair_loops() {
#if defined(__x86_64__)
  if (pair_tier() == PairTier::amx_bf16) return amx_bf16::pair_loops;
  if (pair_tier() == PairTier::avx512_bf16) return avx512_bf16::pair_loops;
#endif
  return pair_loops();
}

}  // namespace mxtape::cpu
