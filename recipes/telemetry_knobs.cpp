#include "recipes/telemetry_knobs.h"

#include "recipes/rows.h"

namespace mxtape {

std::vector<Knob> telemetry_knobs(TelemetryConfig& t) {
  return {
      untraced(
          {"telemetry.every", &t.every,
           "steps between measurements of what rounding does in each layer, kept in telemetry.jsonl; 0: none",
           between(0, 0x1p31)}),
      untraced({"telemetry.formats", &t.formats,
                "formats that are tried on the same numbers besides those in use"}),
      untraced({"telemetry.layers", &t.layers, "pattern of the layers' names, as in precision.rules",
                TextCheck{"a pattern of layer names", check_not_empty}}),
      untraced(
          {"telemetry.slots", &t.slots,
           "globs over slots: \"fprop.*\", \"*.w\", \"wgrad.dw\"; none: all operands and both gradients"}),
      untraced({"telemetry.sample", &t.sample, "numbers of an operand that are measured, about",
                between(1024, 1 << 28)}),
      untraced({"telemetry.window", &t.window,
                "steps up to a measurement over which weights are followed: oscillation",
                between(1, 0x1p31)}),
  };
}

}  // namespace mxtape
