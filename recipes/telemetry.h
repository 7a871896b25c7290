#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// What can be measured in a linear layer: its six operands, and the two gradients that GEMMs make of them.
inline constexpr std::array<std::string_view, 8> measured_slots{
    "fprop.x", "fprop.w", "dgrad.dy", "dgrad.w", "wgrad.dy", "wgrad.x", "dgrad.dx", "wgrad.dw"};

/// What a recipe's telemetry measures, in the order of the computation.
struct TelemetryPlan {
  std::vector<std::string> layers, slots;
  std::vector<Quantizer> formats;
  bool wants_layer(std::string_view layer) const;
  bool wants(std::string_view layer, std::string_view slot) const;
};

/// Throws Error(usage) with key and origin for a pattern that names nothing and for a format that is none or
/// is there twice.
TelemetryPlan telemetry_plan(const Recipe&);

/// Most bytes that a run's telemetry.jsonl and its share of the event file can have, about.
std::int64_t telemetry_bytes(const Recipe&);

}  // namespace mxtape
