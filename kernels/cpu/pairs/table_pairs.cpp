#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu::MXT_TIER {

void forward(const PairForward&);
void backward(const PairBackward&);
void gemm(const PairGemm&);

#if defined(MXT_AMX)
extern const PairTiles pair_tiles{forward, backward, gemm};
#else
extern const PairTiles pair_tiles{forward, backward, nullptr};
#endif

}  // namespace mxtape::cpu::MXT_TIER
