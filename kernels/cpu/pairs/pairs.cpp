#include "kernels/cpu/pairs/pairs.h"

#if defined(__x86_64__)
#include <cpuid.h>
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
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned features = 7, bf16 = 1u << 22, tiles = 1u << 24;
  constexpr long request = 0x1023, tile_data = 18;
  return __get_cpuid_count(features, 0, &a, &b, &c, &d) && (d & bf16) && (d & tiles) &&
         syscall(SYS_arch_prctl, request, tile_data) == 0;
}
#endif

/// Null: none.
const PairLoops* with_bf16_instructions() {
#if defined(__x86_64__)
  if (has_tier(Tier::avx512) && may_use("avx512_bf16") && __builtin_cpu_supports("avx512bf16"))
    return may_use("amx_bf16") && get_amx() ? &amx_bf16::pair_loops : &avx512_bf16::pair_loops;
#endif
  return nullptr;
}

std::atomic<const PairLoops*>& current() {
  static std::atomic<const PairLoops*> chosen{with_bf16_instructions()};
  return chosen;
}

}  // namespace

const PairLoops& best_pair_loops() {
  const PairLoops* const chosen = current().load(std::memory_order_relaxed);
  return chosen ? *chosen : pair_loops();
}

bool use_bf16_instructions(bool used) {
  current().store(used ? with_bf16_instructions() : nullptr, std::memory_order_relaxed);
  return with_bf16_instructions() != nullptr;
}

}  // namespace mxtape::cpu
