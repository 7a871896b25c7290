#pragma once
#include <string>

#include "kernels/choose/make_backend.h"
#include "recipes/recipe.h"

namespace mxtape {

/// "bf16 GEMM, exact products", "f32 GEMM" or "f32 GEMM, one side widened from bf16": what kernels/backend.h
/// promises for two operands rounded so; where integers are preferred and both have codes, "integer GEMM,
/// exact block sums".
std::string_view gemm_path(const Quantizer& a, const Quantizer& b, GemmKernels);

/// The plan as it runs: with bf16 activations an operand that nothing rounds is one of bf16. So are P and dS
/// on CUDA, whose products of bf16 activations take no other operands; the CPU keeps them in f32.
PrecisionPlan realised(PrecisionPlan plan, std::string_view device);

/// What the operands of each GEMM of each layer were asked to round to, and what shall multiply them: a block
/// of lines for every group of layers that are treated alike, e.g.
///   blocks.0-3.*  (16 layers)
///     fprop  x  mxfp4 rule=even                   w  mxfp4 rule=even                   bf16 GEMM, exact
///     products
std::string precision_table(const PrecisionPlan&, GemmKernels);
/// The tables of all phases, each under the step, or the rollback to come, from which it holds. A phase shows
/// only what it changes.
std::string precision_table(const Recipe&, GemmKernels);
/// On the recipe's device, here.
std::string precision_table(const Recipe&);

/// What compute.saved does with what the layers keep for backward, on the recipe's device here:
/// "packed: wgrad.x of 24 layers in 4 bits, of 1 layer as it is; q, k and v of 6 layers in bf16", for each
/// plan from the step on from which it holds. Empty if none packs.
std::string saved_text(const Recipe&);

}  // namespace mxtape
