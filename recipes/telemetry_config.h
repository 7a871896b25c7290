#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mxtape {

/// What a run measures of its own roundings while it trains: docs/telemetry.md.
struct TelemetryConfig {
  std::int64_t every = 0;              ///< steps between measurements; 0: none
  std::vector<std::string> formats{};  ///< tried on the same numbers besides those in use
  std::string layers = "*";            ///< LayerNames: "blocks.*.mlp.*", "blocks[:2].*|head"
  std::vector<std::string> slots{};    ///< globs over measured_slots; empty: all
  std::int64_t sample = 1 << 14;       ///< numbers of an operand, about
  std::int64_t window = 50;            ///< most steps up to a measurement in which weights are followed
  bool measures(std::int64_t step) const { return every > 0 && step % every == 0; }
};

}  // namespace mxtape
