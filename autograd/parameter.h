#pragma once
#include <cstdint>
#include <string>

#include "kernels/rounded.h"

namespace mxtape {

/// What GEMMs multiply by instead of a weight [N, K]. Made at their first use, shared by every micro-batch of
/// a step, and renewed in place by the optimizer as it updates the weight. Stale when `version` is not the
/// parameter's. They are the parameter's value itself where nothing rounds it, and one where one serves both.
struct WeightCopies {
  Rounded fprop{};  ///< blocks along in-features
  Rounded dgrad{};  ///< blocks along out-features
  std::uint64_t version = 0;
};

/// A trained tensor: the f32 master value and the gradient summed over the micro-batches of a step.
struct Parameter {
  std::string name;
  Tensor value{};
  Tensor grad{};
  Tensor average{};       ///< moving, of the values after each step, if it is asked for: rounding with ema
  bool decay = true;      ///< weight decay applies (matrices)
  bool has_grad = false;  ///< grad holds a sum; the next contribution adds to it
  bool fixed = false;     ///< copies.fprop is all that GEMMs have of it: see autograd/fixed_weight.h
  /// Optimizer steps done, plus 1. Whoever writes value changes it; random draws of the copies use it, so
  /// that they do not depend on micro-batches or on evaluations in between.
  std::uint64_t version = 1;
  WeightCopies copies{};

  Shape shape() const { return fixed ? copies.fprop.shape : value.shape(); }
  /// For whoever wrote `value`: copies of what was there before go.
  void written(std::uint64_t new_version) { version = new_version, forget_copies(); }
  void forget_copies() {
    if (!fixed) copies = {};
  }
};

}  // namespace mxtape
