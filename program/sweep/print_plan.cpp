#include <cmath>
#include <map>

#include "core/parallel.h"
#include "program/run/profile.h"
#include "program/show/progress.h"
#include "program/sweep/results.h"
#include "program/sweep/sweep_plan.h"

namespace mxtape {
namespace {

/// Milliseconds of a step of the arm, timed with a run's threads; NaN: it would take seconds.
double ms_now(const SweepPlan& plan, const SweepArm& arm) {
  RunPlan run(arm.recipe);
  run.recipe.compute.threads = plan.threads;
  run.recipe.model.vocabulary = plan.vocabulary;
  run.recipe.train.init.clear();  // any weights take the same time
  run.data = std::make_shared<const TokenFile>(random_tokens(run.recipe));
  const int cores = threads();
  plan_through(run, Station::memory);
  const bool slow = run.memory->bf16_flops + run.memory->f32_flops > 2e11;
  const double ms = slow ? NAN : 1e3 * step_seconds(run, 3);
  set_threads(cores);
  return ms;
}

void put_text(Report& out, const SweepPlan& plan, const referee::Results& results, const SweepTime& time) {
  const Sweep& sweep = plan.sweep;
  out.line("sweep       {}: {}, {} steps, tolerance {}", sweep.file, plan.size_text(), plan.steps(),
           sweep.tolerance);
  out.line("base        {}\ndata        {}, hash {}\ndevice      {}", sweep.base,
           sweep.arms.front().recipe.data.file, plan.data_hash, plan.device);
  for (const referee::Arm& arm : results.arms) {
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
  else if (std::isfinite(time.ms))
    out.line("time        about {} and validations: {:.1f} ms a step of the baseline, {}",
             duration_text(time.seconds), time.ms,
             counts[RunState::finished] ? "where runs are finished as there" : "timed now");
  else
    out.line("time        not known: no run is finished yet, and a step takes seconds");
  out.line("memory      {} a run of {}", bytes_text(double(plan.memory_of_run)),
           bytes_text(double(plan.memory)));
  out.line("disk        {}; {} are free", bytes_text(double(plan.disk_needed)),
           bytes_text(double(plan.disk_free)));
  for (const auto& note : plan.notes) out.line("note: {}", note);
}

Value plan_value(const SweepPlan& plan, const referee::Results& results, const SweepTime& time) {
  Table arms("name; differences"), runs("arm; seed; state; steps_done; folder");
  for (const referee::Arm& arm : results.arms) arms.row(arm.name, arm.differences);
  for (const SweepRun& run : plan.runs)
    runs.row(plan.sweep.arms[run.arm].name, run.seed, name_of(run.state), run.steps_done,
             run.folder.string());
  const char* const unknown = "no run is finished yet, and a step takes seconds";
  return object("file", plan.sweep.file, "base", plan.sweep.base, "baseline", plan.sweep.baseline, "seeds",
                plan.sweep.seeds, "tolerance", plan.sweep.tolerance, "steps", plan.steps(), "folder",
                plan.out.string(), "jobs", plan.jobs, "threads_a_run", plan.threads, "arms", arms, "runs",
                runs, "ms", Value(time.ms, unknown), "expected_seconds", Value(time.seconds, unknown),
                "memory_of_run_bytes", plan.memory_of_run, "disk_needed_bytes", plan.disk_needed,
                "disk_free_bytes", plan.disk_free, "notes", plan.notes);
}

}  // namespace

SweepTime expected_time(const SweepPlan& plan) {
  std::vector<double> ms;  // by arm
  for (std::size_t i = 0; i < plan.sweep.arms.size(); ++i) {
    const SweepArm& arm = plan.sweep.arms[i];
    const auto there = std::ranges::find_if(
        plan.runs, [&](auto& run) { return run.arm == i && run.state == RunState::finished; });
    ms.push_back(there != plan.runs.end() ? read_run_log(there->folder).median_milliseconds
                 : arm.trunk              ? ms[*arm.trunk]
                                          : ms_now(plan, arm));
  }
  SweepTime time{.seconds = 0, .ms = ms[plan.sweep.baseline_index()]};
  for (const SweepRun& run : plan.runs)  // validations left out
    if (run.to_do()) time.seconds += double(run.steps - run.steps_done) * ms[run.arm] / 1e3 / plan.jobs;
  return time;
}

Report plan_of_one(const SweepPlan& plan, const referee::Results& results) {
  const auto time = expected_time(plan);
  Report out;
  put_text(out, plan, results, time);
  out.put("*", plan_value(plan, results, time));
  return out;
}

}  // namespace mxtape
