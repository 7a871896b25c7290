#include <cmath>
#include <map>

#include "core/parallel.h"
#include "program/run/profile.h"
#include "program/show/progress.h"
#include "program/sweep/sweep_plan.h"

namespace mxtape {
namespace {

constexpr const char* unknown = "a step of an arm without finished runs takes seconds, or diverges";

/// Milliseconds of a step of the arm, timed with a run's threads; NaN: it would take seconds; none: it
/// diverges, as the plan notes.
std::optional<double> ms_now(SweepPlan& plan, const SweepArm& arm) {
  RunPlan run(arm.recipe);
  run.recipe.compute.threads = plan.threads;
  run.recipe.model.vocabulary = plan.vocabulary;
  run.recipe.train.init.clear();  // any weights take the same time
  run.data = std::make_shared<const TokenFile>(random_tokens(run.recipe));
  const int cores = threads();
  plan_through(run, Station::memory);
  const bool slow = run.memory->bf16_flops + run.memory->f32_flops > 2e11;
  std::optional<double> ms;
  try {
    ms = slow ? NAN : 1e3 * step_seconds(run, 3);
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    const std::string what = e.what();
    plan.notes.push_back(
        fmt::format("arm '{}' diverges on the random tokens that time it ({}): its runs are not in the time",
                    arm.name, what.substr(0, what.find('\n'))));
  }
  set_threads(cores);
  return ms;
}

}  // namespace

SweepTime expected_time(SweepPlan& plan) {
  std::vector<std::optional<double>> ms;  // by arm
  for (std::size_t i = 0; i < plan.sweep.arms.size(); ++i) {
    const SweepArm& arm = plan.sweep.arms[i];
    const auto there = std::ranges::find_if(
        plan.runs, [&](auto& run) { return run.arm == i && run.state == RunState::finished; });
    ms.push_back(there != plan.runs.end() ? read_run_log(there->folder).median_milliseconds
                 : arm.trunk              ? ms[*arm.trunk]
                                          : ms_now(plan, arm));
  }
  SweepTime time{.seconds = 0, .ms = ms[plan.sweep.baseline_index()].value_or(NAN)};
  for (const SweepRun& run : plan.runs)  // validations left out
    if (run.to_do())
      time.seconds += double(run.steps - run.steps_done) * ms[run.arm].value_or(0) / 1e3 / plan.jobs;
  return time;
}

std::string plan_text(const SweepPlan& plan, const SweepTime& time, const std::string& label) {
  std::string states;
  std::map<RunState, int> counts;
  for (const SweepRun& run : plan.runs) ++counts[run.state];
  for (const auto& [state, count] : counts)
    states += fmt::format("{} {} {}", states.empty() ? "" : ",", count, name_of(state));
  const std::string expected =
      plan.to_do() == 0 ? "nothing is to do"
      : !std::isfinite(time.seconds + time.ms)
          ? fmt::format("not known: {}", unknown)
          : fmt::format("about {} and validations: {:.1f} ms a step of the baseline, {}",
                        duration_text(time.seconds), time.ms,
                        counts[RunState::finished] ? "where runs are finished as there" : "timed now");
  return fmt::format(
      "{:<11}{}; {} at a time, {} each\ntime        {}\nmemory      {} a run of {}\n"
      "disk        {}; {} are free\n",
      label, states, plan.jobs, counted(plan.threads, "thread"), expected,
      bytes_text(double(plan.memory_of_run)), bytes_text(double(plan.memory)),
      bytes_text(double(plan.disk_needed)), bytes_text(double(plan.disk_free)));
}

Value plan_value(const SweepPlan& plan, const SweepTime& time) {
  Table runs("arm; seed; state; steps_done; folder");
  for (const SweepRun& run : plan.runs)
    runs.row(plan.sweep.arms[run.arm].name, run.seed, name_of(run.state), run.steps_done, run.folder);
  return object("runs", runs, "to_do", plan.to_do(), "jobs", plan.jobs, "threads_a_run", plan.threads, "ms",
                Value(time.ms, unknown), "expected_seconds", Value(time.seconds, unknown),
                "memory_of_run_bytes", plan.memory_of_run, "disk_needed_bytes", plan.disk_needed,
                "disk_free_bytes", plan.disk_free);
}

}  // namespace mxtape
