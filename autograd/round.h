#pragma once
#include <optional>

#include "autograd/ops.h"

namespace mxtape {

/// Gives `now` and `later` their numbers, in at most one pass over x. Either may be null or have them
/// already. `later`, if it is rounded `again`, needs `now`. What no rounding changes is x itself; two that
/// come out the same are one; one that is rounded `again` is made from what the other is worth. `column_sums`
/// [C], if given, gets the sums of x's columns from the same pass. x goes before what packs `later` comes.
void round(Backend&, Tensor x, Rounded* now, Rounded* later = nullptr, const Tensor& column_sums = {},
           Write sums = Write::overwrite);

/// r in a layout: itself, or recoded into memory that is free again when the result goes.
Rounded in_layout(Backend&, const Rounded& r, Layout);

/// The numbers as an op reads them: the values themselves where nothing multiplies them and their type is the
/// one that is asked for, if any; else new ones, f32 unless another type is asked for.
Tensor value_of(Backend&, const Rounded&, std::optional<DType> = {});

/// A parameter's value, f32, after rounding: itself if nothing rounds it.
Tensor rounded(const Tape&, const Parameter&, const ParameterQuant&, Slot);

/// A GEMM that gives the gradient of an operand of fprop, and then the way through that operand's rounding.
void multiply_through(Backend&, call::Gemm, call::QuantizeBackward through);

}  // namespace mxtape
