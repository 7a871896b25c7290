#include "recipes/text/precision_table.h"

#include <map>
#include <string>

#include "kernels/attention/slots.h"

namespace mxtape {
namespace {

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
  return "wgrad.x" + text_of(x) + (again ? ", but what norms and GELUs give is computed again, save in the last block" : "") +
         "; q, k and v" + text_of(qkv);
}

}  // namespace

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
