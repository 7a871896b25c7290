#include "kernels/cpu/pairs/pairs.h"

#include <atomic>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

#if defined(__x86_64__)
namespace avx512_bf16 {
extern const PairTiles pair_tiles;
}
namespace amx_bf16 {
extern const PairTiles pair_tiles;
}
#endif

namespace {

/// Of what oneDNN may use (ONEDNN_MAX_CPU_ISA), too; it has asked the system for AMX's registers.
const PairTiles* tiles_of_this_machine() {
#if defined(__x86_64__)
  if (gemm_takes_bf16() && has_tier(Tier::avx512) && __builtin_cpu_supports("avx512bf16"))
    return gemm_has_matrix_unit() ? &amx_bf16::pair_tiles : &avx512_bf16::pair_tiles;
#endif
  return nullptr;
}

std::atomic<const PairTiles*>& current() {
  static std::atomic<const PairTiles*> chosen{tiles_of_this_machine()};
  return chosen;
}

}  // namespace

const PairTiles* pair_tiles() { return current().load(std::memory_order_relaxed); }

bool use_pair_tiles(bool used) {
  current().store(used ? tiles_of_this_machine() : nullptr, std::memory_order_relaxed);
  return tiles_of_this_machine() != nullptr;
}

}  // namespace mxtape::cpu
