#include "kernels/cpu/pairs/pairs.h"

#include <atomic>

#include "core/error.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

#if defined(__x86_64__)
namespace avx512_bf16 {
extern const PairTiles pair_tiles;
}
#endif

namespace {

const PairTiles* tiles_of_this_machine() {
#if defined(__x86_64__)
  if (has_tier(Tier::avx512) && __builtin_cpu_supports("avx512bf16")) return &avx512_bf16::pair_tiles;
#endif
  return nullptr;
}

/// What oneDNN may use counts, too: its environment holds this machine to what another has. Matrix units are
/// faster than dot products.
const PairTiles* best_tiles() {
  return gemm_takes_bf16() && !gemm_has_matrix_unit() ? tiles_of_this_machine() : nullptr;
}

std::atomic<const PairTiles*>& current() {
  static std::atomic<const PairTiles*> chosen{best_tiles()};
  return chosen;
}

}  // namespace

bool has_pair_tiles() { return tiles_of_this_machine() != nullptr; }

const PairTiles* pair_tiles() { return current().load(std::memory_order_relaxed); }

void set_pair_tiles(bool used) {
  require(!used || has_pair_tiles(), ExitCode::usage, "cpu: this machine has no avx512_bf16");
  current().store(used ? tiles_of_this_machine() : nullptr, std::memory_order_relaxed);
}

}  // namespace mxtape::cpu
