#pragma once
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "formats/quantize.h"

namespace mxtape {

/// The slot of a linear layer's operand that a copy of `tensor` ("x", "w" or "dy") along `axis` is made for:
/// "fprop.x". Other tensors keep their name. autograd/linear.cpp is where they are multiplied.
inline std::string operand_slot(std::string_view tensor, Axis axis) {
  tensor = tensor.substr(0, tensor.find(" again"));  // rounded from the forward's values
  const bool row = axis == Axis::row;
  const std::string_view gemm = tensor == "x"    ? (row ? "fprop." : "wgrad.")
                                : tensor == "w"  ? (row ? "fprop." : "dgrad.")
                                : tensor == "dy" ? (row ? "dgrad." : "wgrad.")
                                                 : std::string_view();
  return std::string(gemm) + std::string(tensor);
}

}  // namespace mxtape
