#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu::MXT_TIER {

void forward(const PairForward&);
void backward(const PairBackward&);
void gemm(const GemmJob&, Word*);

#if defined(__AVX512BF16__)
extern const PairLoops pair_loops{forward, backward, gemm};
#else
extern const PairLoops pair_loops{forward, backward, nullptr};
#endif

}  // namespace mxtape::cpu::MXT_TIER
