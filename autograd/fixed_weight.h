#pragma once
#include "autograd/linear_operands.h"
#include "formats/codec/mx_tensor.h"

namespace mxtape {

/// The codes of the copy of w that ops::linear() multiplies by: rotated and rounded by the definitions, on
/// the host. Throws Error(data) if a number has no code (formats/codec/mx_tensor.h).
MxTensor pack_weight(Backend&, const Parameter& w, const LinearUse&);

/// Makes such codes all that GEMMs have of a weight, at the width of their format. It can be evaluated, not
/// trained; its value may go unless something else reads it. Throws Error(data) if they are in another format
/// than the layer's, or the sizes do not fit.
void fix_weight(Backend&, Parameter& w, const MxTensor&, const LinearUse&);

}  // namespace mxtape
