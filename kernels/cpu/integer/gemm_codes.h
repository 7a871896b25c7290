#pragma once
#include "kernels/backend.h"

namespace mxtape::cpu {

/// Gemm of two operands in codes: for each block of both sides the exact sum of the products of codes, times
/// both scales, added in f32 from the first block to the last (dots.h). Where the blocks of the two sides
/// differ in length, sums are over their greatest common divisor. The bits depend on the operands alone: not
/// on threads, instruction sets or libraries. `memory` gives scratch.
void gemm_codes(Backend& memory, const call::Gemm&);

}  // namespace mxtape::cpu
