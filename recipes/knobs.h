#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// An enum field and the names of its values, in order.
struct Choice {
  std::uint8_t* value;
  std::span<const std::string_view> names;
};

/// An integer field of which some values have names; these need not be in the knob's interval.
struct NamedInteger {
  std::int64_t* value;
  std::span<const std::pair<std::string_view, std::int64_t>> names;
};

/// The numbers a knob accepts.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_is_out = false, high_is_out = false;
  bool holds(double x) const {
    return (low_is_out ? x > low : x >= low) && (high_is_out ? x < high : x <= high);
  }
};

/// Words for a knob that holds text, and the check that throws Error(usage) if the text is none of these.
struct TextCheck {
  std::string_view wanted = "text";
  void (*check)(const std::string&) = nullptr;
};

/// What another value of a knob changes.
enum class Effect : std::uint8_t {
  numbers,  ///< the numbers of a step: a run that goes on must have it allowed
  record,   ///< what a run is called, shows and keeps
  nothing   ///< no byte of a checkpoint: checkpoints do not hold it
};

/// One key of a recipe. Parser, defaults, --help, docs/recipes.md and the resolved copy read this and nothing
/// else, so adding a knob is adding a field and its line in knobs.cpp or *_knobs.cpp.
struct Knob {
  std::string_view name;  ///< "optim.beta2"
  std::variant<std::int64_t*, std::uint64_t*, float*, bool*, std::string*, Choice, std::vector<std::string>*,
               NamedInteger>
      field;
  std::string_view help;
  std::variant<Interval, TextCheck> accepts = TextCheck{};
  Effect effect = Effect::numbers;

  std::string_view section() const;  ///< "optim"; empty for the keys before the first section
  std::string_view key() const;      ///< "beta2"
};

/// The knobs of a recipe, in the order in which files are written.
std::vector<Knob> knobs(Recipe&);
/// Those of one section.
std::vector<Knob> model_knobs(ModelConfig&);
std::vector<Knob> compute_knobs(ComputeConfig&);
std::vector<Knob> telemetry_knobs(TelemetryConfig&, bool switches);  ///< precision reads what is measured
/// Whether another value of this key, or of a rule, changes the numbers of the recipe's steps.
bool changes_numbers(Recipe, std::string_view key);
/// Gives a knob the value that the same knob of another recipe has.
void copy_value(const Knob& to, const Knob& from);
/// The keys of one [[precision.rules]] and one [[precision.phases]].
std::vector<Knob> knobs(PrecisionRule&);
std::vector<Knob> knobs(PrecisionPhase&);

/// What a knob accepts, for messages and docs: "an integer >= 1", "a number in [0, 1)", "one of: tanh erf".
std::string wanted_text(const Knob&);
/// The present value as TOML. Numbers are written with the fewest digits that read back to the same value.
std::string value_text(const Knob&);

}  // namespace mxtape
