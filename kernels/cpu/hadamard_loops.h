#pragma once
#include <cstdint>

#include "kernels/cpu/tier.h"

namespace mxtape::cpu {

inline constexpr int most_rotated = 256;  // the longest chunk of a Rotation

/// The vector loops of the Hadamard transform, bit for bit rotate_reference(): the same butterflies in the
/// same order, many at a time. `signs` holds the sign of each position along the axis.
struct HadamardLoops {
  /// One row of `cols` elements in chunks of `size`, a ragged end in smaller ones.
  void (*along_row)(float* y, const float* x, std::int64_t cols, const float* signs, int size);
  /// One chunk of `size` rows, all columns; rows of x and y are cols apart.
  void (*along_column)(float* y, const float* x, std::int64_t cols, const float* signs, int size);
};

namespace baseline {
extern const HadamardLoops hadamard_loops;
}
namespace avx2 {
extern const HadamardLoops hadamard_loops;
}
namespace avx512 {
extern const HadamardLoops hadamard_loops;
}
inline const HadamardLoops& hadamard_loops() {
#if defined(__x86_64__)
  return choose(baseline::hadamard_loops, avx2::hadamard_loops, avx512::hadamard_loops);
#else
  return baseline::hadamard_loops;
#endif
}

}  // namespace mxtape::cpu
