#pragma once
#include <cstdint>
#include <string>

#include "autograd/parameter.h"
#include "kernels/backend.h"

namespace mxtape {

/// Makes parameters. Draws are numbered by parameter and element, so a parameter's start does not depend on
/// the others, on threads or on the device.
struct Initialiser {
  Backend& backend;
  std::uint64_t seed;

  /// Every element N(0, deviation^2). Tensors of rank 2 and more are subject to weight decay, as in GPT-2's
  /// and nanoGPT's training.
  Parameter normal(std::string name, Shape, float deviation, std::uint32_t tensor_id) const;
  Parameter constant(std::string name, Shape, float value) const;
};

}  // namespace mxtape
