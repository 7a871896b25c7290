#pragma once
#include "core/error.h"
#include "recipes/text/slot_rules.h"

namespace mxtape {

/// Whether a weight's format asks averages. Throws Error(usage) for `ema` where no weight is rounded from its
/// master value, along with a Hadamard transform, or without precision.weight_average.
inline bool validate_averages(const Recipe& r, const PrecisionPlan& plan) {
  bool asked = false;
  each_format(plan, [&](const std::string& layer, Slot slot, const Quantizer& q) {
    if (!q.ema) return;
    const auto want = [&](bool holds, std::string_view why) {
      require(holds, ExitCode::usage, "recipe {}: {} of {} is '{}', {}", r.name, name_of(slot), layer,
              to_text(q), why);
    };
    const LinearQuant quant = is_linear(slot) ? plan.linear.at(layer) : LinearQuant{};
    const bool forward = slot == Slot::fprop_w;
    want(forward || (slot == Slot::dgrad_w && quant.dgrad_source != OperandSource::forward),
         "and ema asks the moving average of a weight; want it in fprop.w, or in a dgrad.w that is rounded "
         "from the master weight");
    want((forward ? quant.fprop_rotation : quant.dgrad_rotation).size == 0,
         "and averages are kept of weights as they are; want no Hadamard transform there");
    want(r.precision.weight_average != 0,
         "and no averages are kept; want precision.weight_average, such as 0.998 (arXiv:2502.20853)");
    asked = true;
  });
  return asked;
}

/// Throws Error(usage) for averages that no format of any phase asks.
inline void require_use_of_averages(const Recipe& r, bool asked) {
  require(r.precision.weight_average == 0 || asked, ExitCode::usage,
          "recipe {}: precision.weight_average is {} ({}), and no weight's format says ema; want 0, or "
          "fprop.w in such a format",
          r.name, r.precision.weight_average, r.origin("precision.weight_average"));
}

}  // namespace mxtape
