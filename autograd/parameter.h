#pragma once
#include <cstdint>
#include <string>

#include "autograd/operands/source.h"
#include "autograd/packed/packed_weight.h"

namespace mxtape {

/// The quantized copies of a weight [N, K], shared by every micro-batch of a step: made at their first use,
/// then renewed in place by the optimizer as it updates the weight. Stale when `version` is not the
/// parameter's. They are the parameter's value itself where nothing rounds it, and one where one serves both.
struct WeightCopies {
  QuantizedCopy fprop{};   ///< blocks along in-features
  QuantizedCopy dgrad{};   ///< blocks along out-features
  DrawKey draws{};         ///< of the roundings of both
  OperandSource source{};  ///< of dgrad
  std::uint64_t version = 0;
};

/// A trained tensor: the f32 master value and the gradient summed over the micro-batches of a step.
struct Parameter {
  std::string name;
  Tensor value{};
  Tensor grad{};
  bool decay = true;      ///< weight decay applies (matrices)
  bool has_grad = false;  ///< grad holds a sum; the next contribution adds to it
  /// Optimizer steps done, plus 1. Whoever writes value changes it; random draws of the copies use it, so
  /// that they do not depend on micro-batches or on evaluations in between.
  std::uint64_t version = 1;
  WeightCopies copies{};
  PackedWeight packed{};  ///< instead of copies; `value` is empty then, unless it is read elsewhere too

  /// For whoever wrote `value`: copies of what was there before go.
  void written(std::uint64_t new_version) { version = new_version, copies = {}; }
};

}  // namespace mxtape
