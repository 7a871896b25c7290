#pragma once
#include <string>
#include <vector>

#include "kernels/calls.h"

namespace mxtape {

/// A tensor of floating point numbers that a call reads or writes, by the name that reports use.
struct SeenTensor {
  std::string name;
  Tensor tensor;
};

/// The operands of a linear layer's GEMM, by their slots: "fprop.x", "fprop.w", then their multipliers. None
/// for other calls, whose operands some call before them has written.
std::vector<SeenTensor> operands_of(AnyCall);

/// What the call has written, in the order of the computation. Of a linear layer by slot: a copy is called as
/// the operand that it will be ("dgrad.dy"), a product fprop.y, dgrad.dx or wgrad.dw. Else by the call's own
/// name of it.
std::vector<SeenTensor> results_of(AnyCall);

}  // namespace mxtape
