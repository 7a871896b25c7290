#pragma once
#include <span>
#include <string>

#include "autograd/parameter.h"
#include "kernels/backend.h"

namespace mxtape {

/// Names the first tensor that holds NaN or infinity: parameters in the order of computation, then gradients
/// in the order of the backward pass: "the first tensor that is not finite: gradient of 'head.weight'
/// [65, 128], element 17", or a sentence that says there is none.
std::string first_nonfinite_tensor(Backend&, std::span<Parameter* const>);

}  // namespace mxtape
