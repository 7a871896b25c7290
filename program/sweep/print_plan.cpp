#include <map>

#include "core/error.h"
#include "program/records/run_log.h"
#include "program/run/profile.h"
#include "program/show/progress.h"
#include "program/sweep/sweep_plan.h"
#include "program/sweep/sweep_results.h"

namespace mxtape {
namespace {

/// Median milliseconds of a step: of the runs that are there; else of three steps of the baseline.
struct StepTime {
  double ms;
  std::string source;
};
std::optional<StepTime> step_time(const SweepPlan& plan) {
  std::vector<double> ms;
  for (const SweepRun& run : plan.runs)
    if (run.state == RunState::finished) ms.push_back(read_run_log(run.folder).median_milliseconds);
  if (!ms.empty()) return StepTime{median(ms), "as in the finished runs"};
  RunPlan run(plan.recipe_of(plan.runs[plan.sweep.baseline_index()]));  // the first seed's runs come first
  run.recipe.model.vocabulary = plan.vocabulary;
  run.recipe.train.init.clear();  // any weights take the same time
  run.data = std::make_shared<const TokenFile>(random_tokens(run.recipe));
  plan_through(run, Station::memory);
  if (run.memory->bf16_flops + run.memory->f32_flops > 2e11) return {};  // seconds a step
  return StepTime{1e3 * step_seconds(run, 3), "timed now, with the baseline alone"};
}

/// Seconds of all that is to do, validations left out.
double seconds_of(const SweepPlan& plan, double ms) {
  double steps = 0;
  for (const SweepRun& run : plan.runs)
    if (run.to_do()) steps += double(plan.steps() - run.steps_done);
  return steps * ms / 1e3 / plan.jobs;
}

void put_text(Report& out, const SweepPlan& plan, const SweepResults& results,
              const std::optional<StepTime>& time) {
  const Sweep& sweep = plan.sweep;
  out.line("sweep       {}: {}, {} steps, tolerance {}", sweep.file, plan.size_text(), plan.steps(),
           sweep.tolerance);
  out.line("base        {}\ndata        {}, hash {}\ndevice      {}", sweep.base,
           sweep.arms.front().recipe.data.file, plan.data_hash, plan.device);
  for (const ArmResult& arm : results.arms) {
    out.line("\n{}{}", arm.name, arm.name == sweep.baseline ? "  (the baseline)" : "");
    for (const auto& line : arm.differences) out.line("  {}", line);
  }
  std::string states;
  std::map<RunState, int> counts;
  for (const SweepRun& run : plan.runs) ++counts[run.state];
  for (const auto& [state, count] : counts) states += fmt::format(" {} {}", count, name_of(state));
  out.line("\nfolder      {}\nruns       {}; {} at a time, {} thread{} each", plan.out.string(), states,
           plan.jobs, plan.threads, plan.threads == 1 ? "" : "s");
  if (plan.to_do() == 0)
    out.line("time        nothing is to do");
  else if (time)
    out.line("time        about {} and validations: {:.1f} ms a step, {}",
             duration_text(seconds_of(plan, time->ms)), time->ms, time->source);
  else
    out.line("time        not known: no run is finished yet, and a step takes seconds");
  out.line("memory      {} a run of {}", bytes_text(double(plan.memory_of_run)),
           bytes_text(double(plan.memory)));
  out.line("disk        {}; {} are free", bytes_text(double(plan.disk_needed)),
           bytes_text(double(plan.disk_free)));
  for (const auto& note : plan.notes) out.line("note: {}", note);
}

Value value_of(const SweepPlan& plan, const SweepResults& results, const std::optional<StepTime>& time) {
  Table arms("name; differences"), runs("arm; seed; state; steps_done; folder");
  for (const ArmResult& arm : results.arms) arms.row(arm.name, arm.differences);
  for (const SweepRun& run : plan.runs)
    runs.row(plan.sweep.arms[run.arm].name, run.seed, name_of(run.state),
             run.state == RunState::finished ? plan.steps() : run.steps_done, run.folder.string());
  const auto known = [&](double value) {
    return Value(time ? std::optional(value) : std::nullopt,
                 "no run is finished yet, and a step takes seconds");
  };
  const double ms = time ? time->ms : 0;
  return object("file", plan.sweep.file, "base", plan.sweep.base, "baseline", plan.sweep.baseline, "seeds",
                plan.sweep.seeds, "tolerance", plan.sweep.tolerance, "steps", plan.steps(), "folder",
                plan.out.string(), "jobs", plan.jobs, "threads_a_run", plan.threads, "arms", arms, "runs",
                runs, "ms", known(ms), "expected_seconds", known(seconds_of(plan, ms)), "memory_of_run_bytes",
                plan.memory_of_run, "disk_needed_bytes", plan.disk_needed, "disk_free_bytes", plan.disk_free,
                "notes", plan.notes);
}

}  // namespace

Report sweep_plan(const SweepOptions& options) {
  const SweepPlan plan = plan_sweep(options);
  const SweepResults results = collect_results(plan);
  const auto time = step_time(plan);
  Report out;
  put_text(out, plan, results, time);
  out.put("*", value_of(plan, results, time));
  return out;
}

}  // namespace mxtape
