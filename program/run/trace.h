#pragma once
#include <string>
#include <vector>

#include "kernels/observers/trace.h"
#include "recipes/recipe.h"

namespace mxtape {

/// Where what ran is not what the plan asks for, a line each: "blocks.0.mlp.up fprop x: asked for mxfp4, ran
/// f32". Empty: every GEMM of every layer was multiplied from operands rounded as asked, the way the table
/// says, and nothing else was multiplied in a layer; and every operand said of itself what it was. Of
/// attention, what its kernels were asked for.
std::vector<std::string> differences(const PrecisionPlan&, const Trace::Found&, const std::string& device,
                                     GemmKernels kernels = GemmKernels::library);

struct TraceReport {
  std::int64_t phases = 0, gemms = 0, attentions = 0;
  std::vector<std::string> differences;
  std::string text() const;
};
/// Trains one step of each phase on the recipe's device, one sequence of random tokens each, and compares.
/// The vocabulary must be known.
TraceReport trace_recipe(const Recipe&);

}  // namespace mxtape
