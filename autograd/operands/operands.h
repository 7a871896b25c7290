#pragma once
#include <span>

#include "autograd/ops.h"

namespace mxtape {

/// True if the copies of a tensor for both axes hold the same values: every element is rounded on its own (a
/// cast without scale), or the blocks are square tiles. The random draws of both are the same anyway.
bool serves_both_axes(const Quantizer&);

/// True if `made` can be used where `wanted` is asked for: same rounding, same rotation with the same signs.
bool same_recipe(const QuantizedCopy& made, const QuantizedCopy& wanted);

/// Fills the copies [at most two] of x that have no values yet, in at most one pass over x. An f32
/// passthrough is x itself, and so is a cast to bf16 of a bf16 x; a copy that serves both axes is made once
/// and shared. `slot` names x in reports. `column_sums` [C], if given, gets the sums of x's columns from the
/// same pass.
void quantize_operands(Backend&, std::span<QuantizedCopy> copies, const Tensor& x, std::string_view slot,
                       const DrawKey& draws, const Tensor& column_sums = {}, Write sums = Write::overwrite);

/// The same for a forward operand, copies[0], and for the one that backward takes for it, copies[1] if there
/// is one: made from `source`. Its `draws` are another stream than those of the forward's roundings.
void quantize_for_both(Backend&, std::span<QuantizedCopy> copies, OperandSource source, const Tensor& x,
                       std::string_view slot, const DrawKey& draws);
/// Rounds `copy` anew in its own memory, from what the forward's copy holds now.
void quantize_again(Backend&, const QuantizedCopy& copy, const QuantizedCopy& forward, std::string_view slot,
                    const DrawKey& draws);

/// What a copy is worth: its values themselves where nothing multiplies them, else f32.
Tensor worth(Backend&, const QuantizedCopy&);
/// A parameter's value, f32, after rounding: itself if nothing rounds it. `slot` names it in reports.
Tensor rounded(const Tape&, const Parameter&, const ParameterQuant&, std::string_view slot);

/// A copy as one side of a GEMM, its leading axes folded into rows.
Operand operand(const QuantizedCopy&, Trans = Trans::no);

/// x with all axes but the last folded into one.
Tensor as_matrix(const Tensor& x);

}  // namespace mxtape
