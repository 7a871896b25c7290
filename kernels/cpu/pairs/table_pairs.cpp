#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu::MXT_TIER {

void pack(const PairSource&, const PairCopies&);
void forward(const PairForward&);
void backward(const PairBackward&);

extern const PairTiles pair_tiles{pack, forward, backward};

}  // namespace mxtape::cpu::MXT_TIER
