#pragma once
#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace mxtape {

/// The quantized copies of a weight. Made at the first use after an optimizer step, shared by every
/// micro-batch of the next. They are stale when `version` differs from the parameter's.
struct WeightCopies {
  Tensor fprop, fprop_multiplier;  ///< blocks along in-features
  Tensor dgrad, dgrad_multiplier;  ///< blocks along out-features
  std::uint64_t version = 0;
};

/// A trained tensor: the f32 master value and the gradient summed over the micro-batches of a step.
struct Parameter {
  std::string name;
  Tensor value;
  Tensor grad{};
  bool decay = true;          ///< weight decay applies (matrices)
  bool has_grad = false;      ///< grad holds a sum; the next contribution adds to it
  std::uint64_t version = 1;  ///< counts changes of value; whoever writes value increments it
  WeightCopies copies{};
};

}  // namespace mxtape
