#include "program/sweep/sweep_plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "program/plot/gnuplot.h"
#include "program/records/file_lock.h"
#include "program/run/stop_signals.h"
#include "program/show/progress.h"
#include "program/show/streams.h"
#include "program/sweep/sweep_results.h"

namespace mxtape {
namespace {

/// What was made of the results.
struct Written {
  SweepResults results;
  std::optional<Error>
      no_pictures{};  ///< they could not be drawn or written. A machine without gnuplot has none
};

/// The pictures that there is something for, by their stems.
std::vector<std::pair<std::string, gnuplot::Script>> pictures_of(const SweepPlan& plan,
                                                                 const SweepResults& results) {
  std::vector<std::pair<std::string, gnuplot::Script>> pictures;
  const auto& arms = results.arms;
  if (std::none_of(arms.begin(), arms.end(), [](auto& arm) { return arm.gap.has_value(); })) return pictures;
  pictures.emplace_back("gap", [&](const std::string& terminal, const auto& file) {
    return gap_script(plan, results, terminal, file);
  });
  if (std::any_of(arms.begin(), arms.end(), [](auto& arm) { return arm.validation.size() > 1; }))
    pictures.emplace_back("loss", [&](const std::string& terminal, const auto& file) {
      return loss_script(plan, results, terminal, file);
    });
  return pictures;
}

Written write_results(const SweepPlan& plan, std::FILE* out) {
  Written written{collect_results(plan)};
  write_atomically(plan.out / "results.json", json_text(value_of(plan, written.results)));
  write_atomically(plan.out / "results.csv", results_csv(plan, written.results));
  const bool older = std::filesystem::exists(plan.out / "gap.svg");
  const char* const what_stays = older ? "; those in the folder are of an earlier time" : "";
  std::vector<std::string> drawn;
  try {
    for (const auto& [name, script] : pictures_of(plan, written.results)) {
      gnuplot::write_pictures(plan.out / name, script);
      drawn.push_back(read_whole_text(plan.out / (name + ".svg")));
    }
  } catch (const gnuplot::NotInstalled& e) {
    say(out, "no pictures{}: {}\n", what_stays, e.what());
  } catch (const Error& e) {
    written.no_pictures =
        Error(e.code(), fmt::format("{}: not all pictures could be written{}; all else is there\n{}",
                                    plan.out.string(), what_stays, e.what()));
  }
  write_atomically(plan.out / "report.html", report_html(plan, written.results, drawn));
  return written;
}

/// Makes the sweep's folder and writes the arms' recipes; the locks are of this process, and of it and its
/// children. Runs of a sweep that was killed may still be saving: says so on `out` and waits for them. Throws
/// Error(resource) if another sweep is at work there, and Error(interrupted) after a signal of StopSignals.
std::array<FileLock, 2> lock_folder(const SweepPlan& plan, std::FILE* out) {
  std::error_code error;
  std::filesystem::create_directories(plan.out, error);
  require(!error, ExitCode::resource, "{}: the sweep's folder cannot be made: {}", plan.out.string(),
          error.message());
  std::array<FileLock, 2> locks{FileLock(plan.out / ".lock"), FileLock()};
  require(locks[0].take(), ExitCode::resource,
          "{}: another sweep is at work in this folder; want another --out", plan.out.string());
  locks[1] = FileLock(plan.out / ".runs", true);
  bool free = locks[1].take();
  if (!free) say(out, "waiting for runs of a sweep that was killed: they save and end\n");
  for (; !free; free = locks[1].take()) {
    require(!StopSignals::received(), ExitCode::interrupted,
            "stopped while waiting for the runs of an earlier sweep");
    ::usleep(50'000);
  }
  for (const SweepRun& run : plan.runs)
    if (run.seed == plan.sweep.seeds.front())
      write_atomically(plan.recipe_file(run), to_toml(plan.sweep.arms[run.arm].recipe));
  return locks;
}

void print_time(const SweepPlan& plan, double seconds, std::FILE* out) {
  double of_runs = 0;
  for (const SweepRun& run : plan.runs)
    if (run.record) of_runs += run.record->seconds;
  say(out, "{} in all; the runs' own times add up to {}, {} at a time\n", duration_text(seconds),
      duration_text(of_runs), plan.jobs);
}

/// Of the runs that did not end well: those that failed, with the first one's code, and those that somebody
/// else's signal stopped.
std::vector<Error> problems(const SweepPlan& plan) {
  std::vector<Error> all;
  for (const bool saved : {false, true}) {
    std::string runs;
    int code = 0, count = 0;
    for (const SweepRun& run : plan.runs) {
      if (run.state == RunState::finished || !run.record || run.record->code == 0 || run.to_do() != saved)
        continue;
      if (code == 0) code = run.record->code;
      ++count;
      runs += fmt::format("\n  {}: exit code {}: {}\n    {}", plan.name_of(run), run.record->code,
                          run.record->message.substr(0, run.record->message.find('\n')), run.log.string());
    }
    if (count == 0) continue;
    // A signal's number is no exit code of ours; SIGKILL is what a machine without memory sends.
    if (code > 128) code = int(code == 137 ? ExitCode::resource : ExitCode::internal);
    const std::string how =
        !saved ? "failed"
               : fmt::format(
                     "{} stopped on {} way and saved; the same sweep once more goes "
                     "on with {}",
                     count == 1 ? "was" : "were", count == 1 ? "its" : "their", count == 1 ? "it" : "them");
    all.emplace_back(ExitCode(code), fmt::format("{} of {} runs {}:{}", count, plan.runs.size(), how, runs));
  }
  return all;
}

}  // namespace

Report run_sweep(const SweepOptions& options, const std::string& command, bool json) {
  outlive_readers();
  std::FILE* const out = json ? stderr : stdout;
  const auto begin = std::chrono::steady_clock::now();
  const StopSignals signals;
  SweepPlan plan = plan_sweep(options);
  const auto locks = lock_folder(plan, out);
  say(out, "sweep {}: {}, {} steps; ", plan.sweep.name, plan.size_text(), plan.steps());
  if (plan.to_do() == 0)
    say(out, "nothing to do\n");
  else
    say(out, "{} of {} runs to do, {} at a time, {} thread{} each\n", plan.to_do(), plan.runs.size(),
        plan.jobs, plan.threads, plan.threads == 1 ? "" : "s");
  for (const auto& note : plan.notes) say(out, "note: {}\n", note);
  const bool trains = plan.to_do() > 0;
  try {
    train_runs(plan, command, out);
  } catch (const Error&) {
    if (const auto error = write_results(plan, out).no_pictures) say(out, "{}\n", error->what());
    throw;
  }
  const auto [results, no_pictures] = write_results(plan, out);
  if (!json) say(stdout, "\n{}", results_table(plan, results, columns(stdout)));
  if (trains) print_time(plan, seconds_since(begin), out);
  say(out, "report      {}\n", (plan.out / "report.html").string());
  Report report;
  report.put("*", value_of(plan, results));
  report.problems = problems(plan);
  if (no_pictures && report.problems.empty()) report.problems.push_back(*no_pictures);
  return report;
}

}  // namespace mxtape
