#include "program/referee/referee.h"

#include <chrono>
#include <functional>

#include "core/files/atomic_file.h"
#include "program/plan/initial_weights.h"
#include "program/referee/shown.h"
#include "program/run/stop_signals.h"
#include "program/show/progress.h"
#include "program/show/streams.h"

namespace mxtape::referee {
namespace {

namespace fs = std::filesystem;

/// Throws Error(usage) as the file does, and for words that are no part.
Asked asked_by(const SweepOptions& words) {
  std::map<std::string, InitialWeights> weights;
  const auto model_of = [&](const std::string& init) {
    return weights.try_emplace(init, init).first->second.model();
  };
  Asked asked{.file = RefereeFile(words.file, model_of), .options = words};
  int end = 0;
  if (words.part.find_first_not_of("0123456789/") == std::string::npos)
    std::sscanf(words.part.c_str(), "%4d/%4d%n", &asked.part, &asked.parts, &end);
  require(
      std::size_t(end) == words.part.size() && asked.part >= 1 && asked.part <= asked.parts, ExitCode::usage,
      "--part {}: want the number of a part and how many there are, at most 9999, such as 3/16", words.part);
  const RefereeFile& file = asked.file;
  if (asked.options.out.empty())
    asked.options.out =
        (fs::path(file.sweep(file.points.front()).baseline_arm().recipe.train.out) / file.name).string();
  return asked;
}

/// Writes the page into the folder, which is made, and prints the table.
Report shown(const Results& results, Curves curves, const fs::path& folder, bool json, std::FILE* out) {
  write_atomically(folder / "report.html", page(results, &curves));
  for (const auto& line : results.not_run) say(out, "not run: {}\n", line);
  if (!json) say(stdout, "\n{}", results_table(results, columns(stdout)));
  Report report;
  report.put("*", value_of(results));
  if (curves.fault) report.problems.push_back(*curves.fault);
  return report;
}

/// And results.json, results.csv and pictures.
Report published(Results results, const fs::path& folder, bool json, std::FILE* out) {
  results.add_gaps(), add_steps_to(results), judge(results);
  const fs::path file = folder / "results.json";
  if (fs::exists(file)) try {
      const std::string was = read_results(file).asked.file;
      if (fs::weakly_canonical(was) != fs::weakly_canonical(results.asked.file))
        say(out, "note: {} was of {}, and is replaced\n", file.string(), was);
    } catch (const Error&) {
      say(out, "note: {} was something else, and is replaced\n", file.string());
    }
  write_atomically(file, json_text(value_of(results)));
  write_atomically(folder / "results.csv", results_csv(results));
  const Curves curves = draw_curves(results, folder);
  if (!curves.why.empty()) say(out, "no pictures{}\n", curves.why);
  Report report = shown(results, curves, folder, json, out);
  say(out, "report      {}\n", (folder / "report.html").string());
  return report;
}

Report shown_again(const fs::path& file, const std::string& wanted, bool json, std::FILE* out) {
  const Results results = read_results(file);
  const fs::path folder = wanted.empty() ? file.parent_path() : fs::path(wanted);
  Curves curves;
  for (const char* name : {"gap.svg", "loss.svg"})
    if (fs::exists(file.parent_path() / name))
      curves.pictures.push_back(read_whole_text(file.parent_path() / name));
  return shown(results, curves, folder, json, out);
}

/// Hears each stage, and may train its runs.
using AtStage = std::function<void(SweepPlan&, const std::string& name)>;
enum class Guess : bool { no, yes };

/// In turn tune, select, confirm: each when the ones before are over, or, with a guess, when what these will
/// choose can be stood in for. Returns what was measured.
Results through_stages(const Asked& in, const AtStage& at = {}, Guess guess = Guess::no) {
  Results results = asked(in.file);
  results.complete = true;
  std::vector<std::size_t> tuned;
  bool goes_on = true;
  for (const std::string name : {"tune", "select", "confirm"}) {
    const bool tunes = name == "tune";
    const Stage of = name == "confirm" ? Stage::confirm : Stage::select;
    if ((tunes ? in.file.tune : results.seeds(of)).empty()) continue;
    if (!goes_on) {
      results.not_run.push_back(fmt::format("{}: it waits for the stage before it", name));
      break;
    }
    if (of == Stage::confirm) choose_arms(results);
    SweepPlan stage = tunes ? plan_tune(in) : plan_points(in, results, of, tuned);
    if (at) at(stage, name);
    std::size_t left = 0;
    for (const SweepRun& run : stage.runs) {
      left += run.state != RunState::finished;
      if (run.state == RunState::failed && run.record)
        results.not_run.push_back(fmt::format("{}: {}", stage.name_of(run), run.record->message));
    }
    if (left > 0)
      results.not_run.push_back(
          fmt::format("{}: {} of {} runs are not finished", name, left, stage.runs.size()));
    results.complete = results.complete && left == 0;
    add_work(results, stage, guess == Guess::yes);
    goes_on = is_over(stage) || guess == Guess::yes;
    if (tunes)
      tuned = add_tunes(results, stage);
    else
      add_runs(results, stage, of);
  }
  return results;
}

}  // namespace

Report run_sweep(const SweepOptions& words, const std::string& command, bool json) {
  outlive_readers();
  std::FILE* const out = json ? stderr : stdout;
  if (words.report && words.file.ends_with(".json")) return shown_again(words.file, words.out, json, out);
  const auto begin = std::chrono::steady_clock::now();
  const StopSignals signals;
  const Asked asked = asked_by(words);
  const fs::path folder = asked.options.out;
  require(!words.report || fs::is_directory(folder), ExitCode::data, "{}: no such folder", folder.string());
  if (words.report) return published(through_stages(asked), folder, json, out);
  const std::string part = asked.parts == 1 ? "" : fmt::format("-{}-of-{}", asked.part, asked.parts);
  std::vector<FileLock> locks;  // taken when a plan stands
  std::vector<Error> failures;
  bool trained = false;
  const auto train = [&](SweepPlan& plan, const std::string& name) {
    if (locks.empty()) locks = lock_folder(folder, out, part);
    for (const auto& note : plan.notes) say(out, "note: {}\n", note);
    if (asked.file.has_stages())
      say(out, "{}: ", name);
    else
      say(out, "sweep {}: {} arms x {}, {} steps; ", asked.file.name, plan.sweep.arms.size(),
          counted(plan.sweep.seeds.size(), "seed"), asked.file.points[0].steps);
    trained = trained || plan.to_do() > 0;
    for (Error& error : train_runs(plan, command, out)) failures.push_back(std::move(error));
  };
  Results results;
  try {
    results = through_stages(asked, train);
  } catch (const Error& e) {
    if (e.code() == ExitCode::interrupted)
      for (const Error& problem : published(through_stages(asked), folder, json, out).problems)
        say(out, "{}\n", problem.what());
    throw;
  }
  if (asked.parts > 1) results = through_stages(asked);  // what other parts have trained meanwhile
  Report report = published(results, folder, json, out);
  if (trained)
    say(out, "{} in all; the times of all runs add up to {}\n", duration_text(seconds_since(begin)),
        duration_text(results.times.seconds_of_runs));
  if (!failures.empty()) report.problems = std::move(failures);
  return report;
}

Report sweep_plan(const SweepOptions& words) {
  const Asked asked = asked_by(words);
  Report out;
  double seconds = 0;
  std::string device, plans;
  std::vector<std::string> notes;
  std::vector<Value> stages;
  const auto look = [&](SweepPlan& plan, const std::string& name) {
    const SweepTime time = expected_time(plan);
    plans += plan_text(plan, time, asked.file.has_stages() ? name : "runs");
    stages.push_back(object("stage", name, "*", plan_value(plan, time)));
    seconds += time.seconds, device = plan.device;
    notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
  };
  const Results results = through_stages(asked, look, Guess::yes);
  const Question& file = results.asked;
  out.line("sweep       {}: {} arms x {}, tolerance {}", file.file, results.arms.size(),
           results.has_points()
               ? fmt::format("{} points", results.points.size())
               : fmt::format("{}, {} steps", counted(file.select.size(), "seed"), results.points[0].steps),
           file.tolerance);
  out.line("base        {}\ndata        {}, hash {}\ndevice      {}", file.base, results.data_file,
           results.data_hash, device);
  Table points("name|point; parameters|N|>; tokens|D|>; steps|steps|>; decay_steps|decay|>"),
      arms("name; family; bits; differences");
  for (const Point& p : results.points) points.row(p.name, p.parameters, p.tokens, p.steps, p.decay_steps);
  if (results.has_points()) out.text("\n" + points.text());
  for (const Arm& arm : results.arms) {
    arms.row(arm.name, arm.family, arm.bits, arm.differences);
    out.line("\n{}{}", arm.name, arm.name == file.baseline ? "  (the baseline)" : "");
    for (const auto& line : arm.differences) out.line("  {}", line);
  }
  out.line("\nfolder      {}", asked.options.out);
  out.text(plans);
  if (results.has_points())
    out.line("tokens      {:.3g}; {:.3g} if each length were trained anew", double(results.tokens_trained),
             double(results.tokens_apart));
  for (const auto& note : notes) out.line("note: {}", note);
  out.put("file", file.file, "base", file.base, "baseline", file.baseline, "tolerance", file.tolerance,
          "folder", asked.options.out, "points", points, "arms", arms, "stages", stages, "tokens_trained",
          results.tokens_trained, "tokens_apart", results.tokens_apart, "expected_seconds",
          Value(seconds, "a step takes seconds"), "notes", notes);
  return out;
}

}  // namespace mxtape::referee
