#include "program/sweep/run_sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "program/output.h"
#include "program/plot/gnuplot.h"
#include "program/progress.h"
#include "program/stop_signals.h"
#include "program/sweep/report.h"
#include "program/sweep/sweep_folder.h"
#include "program/sweep/sweep_plot.h"
#include "program/sweep/sweep_runner.h"

namespace mxtape {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// The error of the plots, if they could not be drawn or written. A machine without gnuplot has none.
std::optional<Error> write_plots(const SweepPlan& plan, const SweepResults& results, std::FILE* out) {
  if (std::none_of(results.arms.begin(), results.arms.end(), [](auto& arm) { return arm.gap.has_value(); }))
    return {};
  const bool older = std::filesystem::exists(plan.out / "gap.svg");
  const char* const what_stays = older ? "; those in the folder are of an earlier time" : "";
  try {
    gnuplot::write_pictures(plan.out / "gap", [&](const std::string& terminal, const auto& file) {
      return gap_script(plan, results, terminal, file);
    });
    const bool curves = std::any_of(results.arms.begin(), results.arms.end(),
                                    [](auto& arm) { return arm.validation.size() > 1; });
    if (curves)
      gnuplot::write_pictures(plan.out / "loss", [&](const std::string& terminal, const auto& file) {
        return loss_script(plan, results, terminal, file);
      });
  } catch (const gnuplot::NotInstalled& e) {
    say(out, "no pictures{}: {}\n", what_stays, e.what());
  } catch (const Error& e) {
    return Error(e.code(), fmt::format("{}: not all pictures could be written{}; all else is there\n{}",
                                       plan.out.string(), what_stays, e.what()));
  }
  return {};
}

SweepResults write_results(const SweepPlan& plan) {
  SweepResults results = collect_results(plan);
  const auto text = results_json(plan, results).dump(2, ' ', false, Json::error_handler_t::replace);
  write_atomically(plan.out / "results.json", text + "\n");
  write_atomically(plan.out / "results.csv", results_csv(plan, results));
  write_atomically(plan.out / "report.html", report_html(plan, results));
  return results;
}

void print_time(const SweepPlan& plan, double seconds, std::FILE* out) {
  double of_runs = 0;
  for (const SweepRun& run : plan.runs)
    if (run.record) of_runs += run.record->seconds;
  say(out, "{} in all; the runs' own times add up to {}, {} at a time\n", duration_text(seconds),
      duration_text(of_runs), plan.jobs);
}

/// Of the runs that did not end well: all of them, and the first one's code.
void end(const SweepPlan& plan) {
  std::string failed;
  int code = 0, count = 0;
  for (const SweepRun& run : plan.runs) {
    if (run.state == RunState::finished || !run.record || run.record->code == 0) continue;
    if (code == 0) code = run.record->code;
    ++count;
    failed += fmt::format("\n  {}: exit code {}: {}\n    {}", plan.name_of(run), run.record->code,
                          run.record->message.substr(0, run.record->message.find('\n')), run.log.string());
  }
  if (count == 0) return;
  // A signal's number is no exit code of ours; SIGKILL is what a machine without memory sends.
  if (code > 128) code = int(code == 137 ? ExitCode::resource : ExitCode::internal);
  fail(ExitCode(code), "{} of {} runs failed:{}", count, plan.runs.size(), failed);
}

}  // namespace

void run_sweep(const SweepOptions& options, const std::string& command, SweepForm form) {
  outlive_readers();
  std::FILE* const out = form == SweepForm::json ? stderr : stdout;
  const auto begin = SteadyClock::now();
  const StopSignals signals;
  SweepPlan plan = plan_sweep(options);
  const SweepFolder folder(plan, out);
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
    if (const auto error = write_plots(plan, write_results(plan), out)) say(out, "{}\n", error->what());
    throw;
  }
  const SweepResults results = write_results(plan);
  const auto no_pictures = write_plots(plan, results, out);
  if (form == SweepForm::json)
    print_json(results_json(plan, results));
  else
    say(stdout, "\n{}", results_table(plan, results, columns(stdout)));
  if (trains) print_time(plan, std::chrono::duration<double>(SteadyClock::now() - begin).count(), out);
  say(out, "report      {}\n", (plan.out / "report.html").string());
  end(plan);
  if (no_pictures) throw Error(*no_pictures);
}

}  // namespace mxtape
