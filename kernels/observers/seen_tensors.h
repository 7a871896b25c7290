#pragma once
#include <string>
#include <vector>

#include "kernels/observers/observer.h"

namespace mxtape {

/// A tensor of floating point numbers that a call reads or writes, by the name that reports use.
struct SeenTensor {
  std::string name;
  Tensor tensor;
};

/// What reports call an operand: "fprop.x"; and what is rounded for no linear layer's GEMM: "gain", "value".
inline std::string seen_name_of(Slot slot) {
  return std::string(is_linear(slot) ? name_of(slot) : tensor_of(slot));
}

/// The operands of a linear layer's GEMM, by their slots: "fprop.x", "fprop.w", then their multipliers. None
/// for other calls, whose operands some call before them has written.
std::vector<SeenTensor> operands_of(AnyCall);

/// What the call has written, in the order of the computation. Of a linear layer by slot: a copy is called as
/// the operand that it will be ("dgrad.dy"), a product fprop.y, dgrad.dx or wgrad.dw. Else by the call's own
/// name of it.
std::vector<SeenTensor> results_of(AnyCall);

}  // namespace mxtape
