#pragma once
#include "core/error.h"
#include "recipes/knobs.h"

/// What rows of the knob tables are written with.
namespace mxtape {

constexpr Interval at_least(double low) { return {.low = low}; }
constexpr Interval between(double low, double high) { return {.low = low, .high = high}; }
constexpr Interval above(double low) { return {.low = low, .low_is_out = true}; }
/// [0, 1): moments' decays, dropout.
inline constexpr Interval fraction_below_one{.low = 0, .high = 1, .high_is_out = true};

template <class Enum>
Choice choice(Enum& field, std::span<const std::string_view> names) {
  static_assert(sizeof(Enum) == 1);
  return {reinterpret_cast<std::uint8_t*>(&field), names};
}

inline void check_not_empty(const std::string& text) {
  require(!text.empty(), ExitCode::usage, "the text is empty");
}

inline Knob recorded(Knob knob) {
  knob.effect = Effect::record;
  return knob;
}
inline Knob untraced(Knob knob) {
  knob.effect = Effect::nothing;
  return knob;
}

}  // namespace mxtape
