#include "recipes/weight_average.h"

#include "autograd/slots.h"
#include "core/error.h"

namespace mxtape {

bool validate_averages(const Recipe& r, const PrecisionPlan& plan) {
  bool asked = false;
  const auto refuse = [&](std::string_view slot, const std::string& layer, const Quantizer& q,
                          std::string_view why) {
    fail(ExitCode::usage, "recipe {}: {} of {} is '{}', {}", r.name, slot, layer, to_text(q), why);
  };
  constexpr std::string_view weights_only =
      "and ema asks the moving average of a weight; want it in fprop.w, or in a dgrad.w that is rounded from "
      "the master weight";
  const auto look_at = [&](const auto& slots, const std::string& layer, const auto& quant) {
    for (const auto& slot : slots)
      if ((quant.*slot.field).ema) refuse(slot.name, layer, quant.*slot.field, weights_only);
  };
  for (const auto& [layer, quant] : plan.linear) {
    look_at(output_slots, layer, quant);
    for (const auto& slot : linear_slots) {
      const Quantizer& q = quant.*slot.field;
      if (!q.ema) continue;
      asked = true;
      const bool forward = slot.slot == Slot::fprop_w,
                 backward = slot.slot == Slot::dgrad_w && quant.dgrad_source != OperandSource::forward;
      if (!forward && !backward) refuse(slot.name, layer, q, weights_only);
      if ((forward ? quant.fprop_rotation : quant.dgrad_rotation).size != 0)
        refuse(slot.name, layer, q,
               "and averages are kept of weights as they are; want no Hadamard transform there");
      if (r.precision.weight_average == 0)
        refuse(slot.name, layer, q,
               "and no averages are kept; want precision.weight_average, such as 0.998 (arXiv:2502.20853)");
    }
  }
  for (const auto& [layer, quant] : plan.attention) {
    look_at(attention_slots, layer, quant);
    look_at(std::array{score_slot}, layer, quant);
  }
  for (const auto* group : {&plan.parameters, &plan.sums})
    for (const auto& [layer, q] : *group)
      if (q.ema) refuse("its format", layer, q, weights_only);
  return asked;
}

void require_use_of_averages(const Recipe& r, bool asked) {
  require(r.precision.weight_average == 0 || asked, ExitCode::usage,
          "recipe {}: precision.weight_average is {} ({}), and no weight's format says ema; want 0, or "
          "fprop.w in such a format",
          r.name, r.precision.weight_average, r.origin("precision.weight_average"));
}

}  // namespace mxtape
