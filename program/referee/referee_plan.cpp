#include "program/referee/referee.h"

#include <algorithm>
#include <cmath>

#include "recipes/text/reader.h"

namespace mxtape::referee {
namespace {

void set_rate(Recipe& recipe, const RefereeFile& file, const Choices& choices, const Place& place) {
  if (!choices.tuned.empty()) file.set_tuned(recipe, choices.tuned[place.arm]);
  const double growth = double(file.points[place.point].parameters) / double(file.points.front().parameters);
  recipe.optim.learning_rate *= float(std::pow(growth, file.learning_rate_power));
}

/// The part of `longer` before its rate falls.
Recipe leg_of(const Recipe& longer) {
  Recipe leg = longer;
  leg.train.steps = first_decaying_step(longer.schedule, longer.train.steps);
  leg.schedule.kind = ScheduleKind::constant;
  if (leg.precision.switch_error == 0) leg.telemetry.every = 0;
  validate(leg);
  return leg;
}

/// Throws where the leg's steps would not be the first ones of the whole run. Rates are: a leg ends
/// before any of its lengths' falls.
void require_same_steps(const SweepArm& leg, const SweepArm& whole) {
  for (const Recipe* recipe : {&leg.recipe, &whole.recipe})
    for (const std::int64_t step : plan_changes(*recipe))
      require(step >= leg.recipe.train.steps ||
                  precision_plan(leg.recipe, step) == precision_plan(whole.recipe, step),
              ExitCode::usage,
              "{}: arm '{}': its precision at step {} depends on the length, so that lengths share no trunk; "
              "want phases that start at a step, a number of tokens, or the decay",
              leg.where, leg.name, step);
}

/// The stage of a sweep's arms. Chains, each a run with what branches from it, are dealt to the parts.
StagePlan planned(Sweep sweep, std::vector<Place> places, const Asked& asked) {
  const auto baseline = std::ranges::find(asked.file.arms, asked.file.baseline) - asked.file.arms.begin();
  const auto its = std::ranges::find(places, std::size_t(baseline), &Place::arm);
  sweep.baseline = sweep.arms[std::size_t(its - places.begin())].name;
  StagePlan stage{plan_sweep(asked.options, std::move(sweep)), std::move(places)};
  std::vector<const SweepRun*> chains;
  for (SweepRun& run : stage.sweep.runs) {
    const SweepRun* first = &run;
    while (const SweepRun* trunk = stage.sweep.trunk_of(*first)) first = trunk;
    const auto found = std::ranges::find(chains, first);
    run.elsewhere = (found - chains.begin()) % asked.parts != asked.part - 1;
    if (found == chains.end()) chains.push_back(first);
  }
  return stage;
}

}  // namespace

bool StagePlan::failed(const SweepRun& run) const {
  const SweepRun* trunk = sweep.trunk_of(run);
  return (run.record && run.record->code == int(ExitCode::diverged)) || (trunk && failed(*trunk));
}

bool StagePlan::over() const {
  return std::ranges::all_of(
      sweep.runs, [&](const SweepRun& run) { return run.state == RunState::finished || failed(run); });
}

StagePlan plan_points(const Asked& asked, const Choices& choices, const std::vector<std::uint64_t>& seeds) {
  const RefereeFile& file = asked.file;
  Sweep sweep;
  std::vector<Place> places;
  std::vector<SweepArm> arms;
  const auto add = [&](SweepArm arm, const Place& place) {
    const Point& point = file.points[place.point];
    if (!file.lengths.empty())
      arm.name = fmt::format("{}/{}{:g}/{}", file.sizes[point.size].name, place.trunk ? "trunk-" : "",
                             point.tokens_per_parameter, arm.name);
    arms.push_back(std::move(arm));
    places.push_back(place);
    return arms.size() - 1;
  };
  const std::size_t lengths = std::max<std::size_t>(1, file.lengths.size());
  for (std::size_t size = file.sizes.size(); size-- > 0;) {  // the long runs first
    std::vector<std::optional<std::size_t>> trunks(file.arms.size());
    for (std::size_t p = size * lengths; p < (size + 1) * lengths; ++p) {
      sweep = file.sweep(file.points[p]);
      for (const std::size_t a : choices.arms) {
        SweepArm arm = sweep.arms[a];
        set_rate(arm.recipe, file, choices, {p, a});
        if (!file.lengths.empty() && arm.recipe.precision.switch_error == 0 &&
            !arm.recipe.origin("telemetry.every").starts_with(file.file + ":")) {
          arm.recipe.telemetry.every = arm.recipe.train.steps;
          arm.recipe.telemetry.window = 1;
        }
        arm.trunk = trunks[a];
        if (p + 1 < (size + 1) * lengths) {
          SweepArm leg = arm;
          leg.recipe = leg_of(arm.recipe);
          const std::int64_t before = arm.trunk ? arms[*arm.trunk].recipe.train.steps : 0;
          require(before < leg.recipe.train.steps && leg.recipe.train.steps < arm.recipe.train.steps,
                  ExitCode::usage,
                  "{}: point '{}': of its {} steps the decay begins after step {}, and that of the length "
                  "before it after step {}; want longer lengths, further apart",
                  file.file, file.points[p].name, arm.recipe.train.steps, leg.recipe.train.steps, before);
          arm.trunk = trunks[a] = add(std::move(leg), {p, a, true});
        }
        for (auto trunk = arm.trunk; trunk; trunk = arms[*trunk].trunk) require_same_steps(arms[*trunk], arm);
        add(std::move(arm), {p, a});
      }
    }
  }
  sweep.arms = std::move(arms), sweep.seeds = seeds;
  return planned(std::move(sweep), std::move(places), asked);
}

StagePlan plan_tune(const Asked& asked) {
  const RefereeFile& file = asked.file;
  Sweep sweep = file.sweep(file.points.front());
  sweep.seeds = file.tune;
  std::vector<Place> places;
  std::vector<SweepArm> arms;
  for (std::size_t value = 0; value < file.tuned_values.size(); ++value)
    for (std::size_t a = 0; a < file.arms.size(); ++a) {
      SweepArm& arm = arms.emplace_back(sweep.arms[a]);
      file.set_tuned(arm.recipe, value);
      arm.name = fmt::format("tune/{}/{}", file.tuned_values[value], arm.name);
      places.push_back({value, a});
    }
  sweep.arms = std::move(arms);
  return planned(std::move(sweep), std::move(places), asked);
}

}  // namespace mxtape::referee
