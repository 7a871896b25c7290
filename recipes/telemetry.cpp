#include "recipes/telemetry.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "recipes/text/layer_patterns.h"

namespace mxtape {

bool TelemetryPlan::wants_layer(std::string_view layer) const {
  return std::find(layers.begin(), layers.end(), layer) != layers.end();
}

bool TelemetryPlan::wants(std::string_view layer, std::string_view slot) const {
  return wants_layer(layer) && std::find(slots.begin(), slots.end(), slot) != slots.end();
}

TelemetryPlan telemetry_plan(const Recipe& recipe) {
  const TelemetryConfig& t = recipe.telemetry;
  TelemetryPlan plan;
  const auto where = [&](const char* key) {
    return fmt::format("recipe {}: {} ({})", recipe.name, key, recipe.origin(key));
  };
  const auto names = linear_layer_names(recipe.model);
  const auto matching = LayerNames(names, recipe.model.layers).matching(t.layers, where("telemetry.layers"));
  for (const auto& name : names)
    if (std::find(matching.begin(), matching.end(), name) != matching.end()) plan.layers.push_back(name);

  for (const std::string_view slot : measured_slots)
    if (t.slots.empty() || std::ranges::any_of(t.slots, [&](auto& glob) { return matches_glob(glob, slot); }))
      plan.slots.emplace_back(slot);
  for (const std::string& glob : t.slots)
    require(std::ranges::any_of(measured_slots, [&](auto slot) { return matches_glob(glob, slot); }),
            ExitCode::usage, "{}: '{}' names no slot; known: {}", where("telemetry.slots"), glob,
            fmt::join(measured_slots, " "));

  for (const std::string& text : t.formats) {
    try {
      plan.formats.push_back(parse_quantizer(text));
    } catch (const Error& e) {
      fail(ExitCode::usage, "{}: '{}': {}", where("telemetry.formats"), text, e.what());
    }
    const std::string contradiction = plan.formats.back().contradiction();
    require(contradiction.empty(), ExitCode::usage, "{}: '{}': {}", where("telemetry.formats"), text,
            contradiction);
    require(std::count(plan.formats.begin(), plan.formats.end(), plan.formats.back()) == 1, ExitCode::usage,
            "{}: '{}' is there twice; want each format once", where("telemetry.formats"), text);
  }
  return plan;
}

std::int64_t telemetry_bytes(const Recipe& recipe) {
  const TelemetryConfig& t = recipe.telemetry;
  if (t.every == 0) return 0;
  const TelemetryPlan plan = telemetry_plan(recipe);
  // A record with some twenty scales, and the scalars and the histogram of its slot in the event file.
  constexpr std::int64_t record = 600, events = 700;
  const std::int64_t places = std::int64_t(plan.layers.size() * plan.slots.size());
  return recipe.train.steps / t.every * places * (record * std::int64_t(1 + plan.formats.size()) + events);
}

}  // namespace mxtape
