#include "recipes/text/precision_table.h"

#include <fmt/format.h>

#include <map>
#include <string>

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

/// " of 1 layer as it is, of 16 layers in 4 bits".
std::string text_of(const std::map<std::string, std::int64_t>& layers) {
  std::string text;
  for (const auto& [how, count] : layers)
    text += fmt::format("{} of {} layer{} {}", text.empty() ? "" : ",", count, count == 1 ? "" : "s", how);
  return text;
}

std::string text_of(const PrecisionPlan& plan, const Recipe& recipe) {
  const Kept kept = kept_for(plan, recipe);
  const bool packs = kept.saved == Saved::packed, cpu = recipe.compute.device == "cpu";
  std::map<std::string, std::int64_t> x, qkv;
  for (const auto& [name, quant] : plan.linear) {
    const int bits = packs ? packed_bits(quant, recipe.compute.gemm_kernels(), cpu) : 0;
    ++x[bits > 0 ? fmt::format("in {} bits", bits) : "as it is"];
  }
  const bool narrows = packs && cpu && plan.activations == DType::f32;
  for (const auto& [name, quant] : plan.attention)
    ++qkv[narrows && rounds_inputs_to_bf16(quant) ? "in bf16" : "as they are"];
  const bool again = kept.recompute == Recompute::norm_and_gelu;
  return "wgrad.x" + text_of(x) + (again ? ", but what norms and GELUs give is computed again" : "") +
         "; q, k and v" + text_of(qkv);
}

}  // namespace

Kept kept_for(const PrecisionPlan& plan, const Recipe& recipe) {
  const ComputeConfig& compute = recipe.compute;
  const GemmKernels kernels = compute.gemm_kernels();
  constexpr std::int64_t large = (std::int64_t{16} << 20) / sizeof(float);
  const std::int64_t numbers = recipe.train.batch_size * recipe.model.context * recipe.model.hidden();
  bool packs = false;
  for (const auto& [name, quant] : plan.linear)
    packs |= compute.saved == Saved::automatic && numbers >= large && packed_bits(quant, kernels, true) > 0 &&
             gemm_layout(kernels, quant.wgrad_dy, quant.wgrad_x) == Layout::codes;
  const Recompute recompute = packs ? Recompute::norm_and_gelu : Recompute::none;
  return {packs ? Saved::packed : compute.saved,
          compute.recompute == Recompute::automatic ? recompute : compute.recompute};
}

std::string saved_text(const Recipe& recipe) {
  bool packs = false;
  std::string text;
  for (const std::int64_t step : plan_changes(recipe)) {
    const PrecisionPlan plan = realised(precision_plan(recipe, step), recipe.compute.device);
    packs |= kept_for(plan, recipe).saved == Saved::packed;
    text += (step == 0 ? "packed: " : fmt::format("; from step {}: ", step)) + text_of(plan, recipe);
  }
  return packs ? text : "";
}

}  // namespace mxtape
