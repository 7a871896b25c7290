#include "program/referee/referee.h"

#include <algorithm>
#include <cmath>

namespace mxtape::referee {
namespace {

/// The part of `longer` before its rate falls.
Recipe leg_of(const Recipe& longer) {
  Recipe leg = longer;
  leg.train.steps = first_decaying_step(longer.schedule, longer.train.steps);
  std::erase_if(leg.precision.phases, [&](const PrecisionPhase& phase) {
    const std::int64_t start = phase_start(longer, phase);
    return start != never && start >= leg.train.steps;
  });
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
SweepPlan planned(Sweep sweep, const Asked& asked) {
  const auto baseline = std::ranges::find(asked.file.arms, asked.file.baseline) - asked.file.arms.begin();
  sweep.baseline = std::ranges::find(sweep.arms, std::size_t(baseline), &SweepArm::arm)->name;
  SweepPlan stage = plan_sweep(asked.options, std::move(sweep));
  std::vector<const SweepRun*> chains;
  for (SweepRun& run : stage.runs) {
    const SweepRun* first = &run;
    while (const SweepRun* trunk = stage.trunk_of(*first)) first = trunk;
    const auto found = std::ranges::find(chains, first);
    run.elsewhere = (found - chains.begin()) % asked.parts != asked.part - 1;
    if (found == chains.end()) chains.push_back(first);
  }
  return stage;
}

}  // namespace

bool has_failed(const SweepPlan& stage, const SweepRun& run) {
  const SweepRun* trunk = stage.trunk_of(run);
  return (run.record && run.record->code == int(ExitCode::diverged)) || (trunk && has_failed(stage, *trunk));
}

bool is_over(const SweepPlan& stage) {
  return std::ranges::all_of(stage.runs, [&](const SweepRun& run) {
    return run.state == RunState::finished || has_failed(stage, run);
  });
}

SweepPlan plan_points(const Asked& asked, const Results& results, Stage stage,
                      const std::vector<std::size_t>& tuned) {
  const RefereeFile& file = asked.file;
  Sweep sweep;
  std::vector<SweepArm> arms;
  const auto add = [&](SweepArm arm) {
    const Point& point = file.points[arm.point];
    if (!file.lengths.empty())
      arm.name = fmt::format("{}/{}{:g}/{}", file.sizes[point.size].name, arm.is_trunk ? "trunk-" : "",
                             point.tokens_per_parameter, arm.name);
    arms.push_back(std::move(arm));
    return arms.size() - 1;
  };
  const std::size_t lengths = std::max<std::size_t>(1, file.lengths.size());
  for (std::size_t size = file.sizes.size(); size-- > 0;) {  // the long runs first
    std::vector<std::optional<std::size_t>> trunks(file.arms.size());
    for (std::size_t p = size * lengths; p < (size + 1) * lengths; ++p) {
      sweep = file.sweep(file.points[p]);
      const double growth = double(file.points[p].parameters) / double(file.points.front().parameters);
      for (std::size_t a = 0; a < file.arms.size(); ++a) {
        if (!results.is_planned(a, stage)) continue;
        SweepArm arm = sweep.arms[a];
        arm.point = p, arm.arm = a;
        if (!tuned.empty()) file.set_tuned(arm.recipe, tuned[a]);
        arm.recipe.optim.learning_rate *= float(std::pow(growth, file.learning_rate_power));
        if (!file.lengths.empty() && arm.recipe.precision.switch_error == 0 &&
            !arm.recipe.origin("telemetry.every").starts_with(file.file + ":")) {
          arm.recipe.telemetry.every = arm.recipe.train.steps;
          arm.recipe.telemetry.window = 1;
        }
        arm.trunk = trunks[a];
        if (p + 1 < (size + 1) * lengths) {
          SweepArm leg = arm;
          leg.recipe = leg_of(arm.recipe), leg.is_trunk = true;
          const std::int64_t before = arm.trunk ? arms[*arm.trunk].recipe.train.steps : 0;
          require(before < leg.recipe.train.steps && leg.recipe.train.steps < arm.recipe.train.steps,
                  ExitCode::usage,
                  "{}: point '{}': of its {} steps the decay begins after step {}, and that of the length "
                  "before it after step {}; want longer lengths, further apart",
                  file.file, file.points[p].name, arm.recipe.train.steps, leg.recipe.train.steps, before);
          arm.trunk = trunks[a] = add(std::move(leg));
        }
        for (auto trunk = arm.trunk; trunk; trunk = arms[*trunk].trunk) require_same_steps(arms[*trunk], arm);
        add(std::move(arm));
      }
    }
  }
  sweep.arms = std::move(arms), sweep.seeds = results.seeds(stage);
  return planned(std::move(sweep), asked);
}

SweepPlan plan_tune(const Asked& asked) {
  const RefereeFile& file = asked.file;
  Sweep sweep = file.sweep(file.points.front());
  sweep.seeds = file.tune;
  std::vector<SweepArm> arms;
  for (std::size_t value = 0; value < file.tuned_values.size(); ++value)
    for (std::size_t a = 0; a < file.arms.size(); ++a) {
      SweepArm& arm = arms.emplace_back(sweep.arms[a]);
      arm.point = value, arm.arm = a;
      file.set_tuned(arm.recipe, value);
      arm.name = fmt::format("tune/{}/{}", file.tuned_values[value], arm.name);
    }
  sweep.arms = std::move(arms);
  return planned(std::move(sweep), asked);
}

}  // namespace mxtape::referee
