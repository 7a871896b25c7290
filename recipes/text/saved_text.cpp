#include "recipes/text/precision_table.h"

#include <fmt/format.h>

#include <map>

#include "kernels/attention/slots.h"
#include "kernels/narrow.h"

namespace mxtape {
namespace {

/// Bits of an element of what wgrad's x is kept as; 0: as it is.
int packed_bits(const LinearQuant& quant, GemmKernels kernels, bool narrows) {
  const bool shared = quant.wgrad_source == OperandSource::shared;
  const Quantizer& q = shared ? quant.fprop_x : quant.wgrad_x;
  const Layout layout = gemm_layout(kernels, quant.wgrad_dy, quant.wgrad_x);
  const Layout kept = waiting_layout(q, shared ? Axis::row : Axis::column, layout, narrows);
  return kept == layout ? 0 : q.element.bits();
}

std::string layers_text(std::int64_t count) {
  return fmt::format("{} layer{}", count, count == 1 ? "" : "s");
}

std::string text_of(const PrecisionPlan& plan, const ComputeConfig& compute) {
  std::map<int, std::int64_t> layers;  // by bits
  for (const auto& [name, quant] : plan.linear)
    ++layers[packed_bits(quant, compute.gemm_kernels(), compute.device == "cpu")];
  std::int64_t narrow = 0, wide = 0;
  for (const auto& [name, quant] : plan.attention)
    ++(plan.activations == DType::f32 && rounds_inputs_to_bf16(quant) ? narrow : wide);
  std::string text = "wgrad.x";
  for (const char* comma = " of "; const auto& [bits, count] : layers) {
    text += comma + layers_text(count) + (bits > 0 ? fmt::format(" in {} bits", bits) : " as it is");
    comma = ", of ";
  }
  text += "; q, k and v";
  if (narrow > 0) text += fmt::format(" of {} in bf16", layers_text(narrow));
  if (wide > 0) text += fmt::format("{} of {} as they are", narrow > 0 ? "," : "", layers_text(wide));
  return text;
}

}  // namespace

std::string saved_text(const Recipe& recipe) {
  if (recipe.compute.saved == Saved::ready) return "";
  std::string text;
  for (const std::int64_t step : plan_changes(recipe)) {
    const PrecisionPlan plan = realised(precision_plan(recipe, step), recipe.compute.device);
    text += (step == 0 ? "packed: " : fmt::format("; from step {}: ", step)) + text_of(plan, recipe.compute);
  }
  return text;
}

}  // namespace mxtape
