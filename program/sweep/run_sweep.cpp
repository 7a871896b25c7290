#include "program/sweep/sweep_plan.h"

#include <algorithm>
#include <chrono>

#include "core/files/atomic_file.h"
#include "program/plot/gnuplot.h"
#include "program/run/stop_signals.h"
#include "program/show/progress.h"
#include "program/show/streams.h"
#include "program/sweep/sweep_results.h"

namespace mxtape {
namespace {

/// Returns the results, and why pictures could not be drawn or written. A machine without gnuplot has none.
std::pair<SweepResults, std::optional<Error>> write_results(const SweepPlan& plan, std::FILE* out) {
  SweepResults results = collect_results(plan);
  std::optional<Error> no_pictures;
  write_atomically(plan.out / "results.json", json_text(value_of(plan, results)));
  write_atomically(plan.out / "results.csv", results_csv(plan, results));
  const std::string what_stays =
      std::filesystem::exists(plan.out / "gap.svg") ? "; those in the folder are of an earlier time" : "";
  std::vector<std::string> drawn;
  const auto draw = [&](const char* stem, auto script) {
    gnuplot::write_pictures(plan.out / stem, [&](const std::string& terminal, const auto& file) {
      return script(plan, results, terminal, file);
    });
    drawn.push_back(read_whole_text(plan.out / fmt::format("{}.svg", stem)));
  };
  const auto& arms = results.arms;
  try {
    const bool gaps = std::ranges::any_of(arms, [](auto& arm) { return arm.gap.has_value(); });
    if (gaps) draw("gap", gap_script);
    if (gaps && std::ranges::any_of(arms, [](auto& arm) { return arm.validation.size() > 1; }))
      draw("loss", loss_script);
  } catch (const gnuplot::NotInstalled& e) {
    say(out, "no pictures{}: {}\n", what_stays, e.what());
  } catch (const Error& e) {
    no_pictures =
        Error(e.code(), fmt::format("{}: not all pictures could be written{}; all else is there\n{}",
                                    plan.out.string(), what_stays, e.what()));
  }
  write_atomically(plan.out / "report.html", report_html(plan, results, drawn));
  return {std::move(results), std::move(no_pictures)};
}

}  // namespace

std::vector<FileLock> lock_folder(const std::filesystem::path& folder, std::FILE* out,
                                  const std::string& part) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ExitCode::resource, "{}: the sweep's folder cannot be made: {}", folder.string(),
          error.message());
  std::vector<FileLock> locks;
  locks.emplace_back(folder / ".lock");
  bool free = part.empty() ? locks[0].take() : locks[0].share();
  if (!part.empty()) free = locks.emplace_back(folder / (".lock" + part)).take() && free;
  require(free, ExitCode::resource, "{}: another sweep is at work in this folder; want another --out",
          folder.string());
  const FileLock& runs = locks.emplace_back(folder / (".runs" + part), true);
  free = runs.take();
  if (!free) say(out, "waiting for runs of a sweep that was killed: they save and end\n");
  for (; !free; free = runs.take()) {
    require(!StopSignals::received(), ExitCode::interrupted,
            "stopped while waiting for the runs of an earlier sweep");
    ::usleep(50'000);
  }
  return locks;
}

Report run_sweep(const SweepOptions& options, const std::string& command, bool json) {
  outlive_readers();
  std::FILE* const out = json ? stderr : stdout;
  const auto begin = std::chrono::steady_clock::now();
  const StopSignals signals;
  SweepPlan plan = plan_sweep(options);
  const auto locks = lock_folder(plan.out, out);
  for (const auto& note : plan.notes) say(out, "note: {}\n", note);
  say(out, "sweep {}: {}, {} steps; ", plan.sweep.name, plan.size_text(), plan.steps());
  const auto to_do = plan.to_do();
  std::vector<Error> failures;
  try {
    failures = train_runs(plan, command, out);
  } catch (const Error&) {
    if (const auto error = write_results(plan, out).second) say(out, "{}\n", error->what());
    throw;
  }
  const auto [results, no_pictures] = write_results(plan, out);
  if (!json) say(stdout, "\n{}", results_table(plan, results, columns(stdout)));
  double of_runs = 0;
  for (const SweepRun& run : plan.runs) of_runs += run.record ? run.record->seconds : 0;
  if (to_do > 0)
    say(out, "{} in all; the times of all {} runs add up to {}, {} at a time\n",
        duration_text(seconds_since(begin)), plan.runs.size(), duration_text(of_runs), plan.jobs);
  say(out, "report      {}\n", (plan.out / "report.html").string());
  Report report;
  report.put("*", value_of(plan, results));
  report.problems = std::move(failures);
  if (no_pictures && report.problems.empty()) report.problems.push_back(*no_pictures);
  return report;
}

}  // namespace mxtape
