#include "program/referee/referee.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <regex>

#include "core/files/atomic_file.h"
#include "program/run/stop_signals.h"
#include "program/show/progress.h"
#include "program/show/streams.h"
#include "train/memory/memory_plan.h"

namespace mxtape::referee {
namespace {

namespace fs = std::filesystem;

/// Throws Error(usage) as the file does, and for words that are no part.
Asked asked_by(const Words& words) {
  Asked asked{.file = RefereeFile(words.sweep.file), .options = words.sweep};
  std::smatch found;
  if (std::regex_match(words.part, found, std::regex("(\\d{1,4})/(\\d{1,4})")))
    asked.part = std::stoi(found[1]), asked.parts = std::stoi(found[2]);
  require(asked.part >= 1 && asked.part <= asked.parts && found.empty() == words.part.empty(),
          ExitCode::usage, "--part {}: want the number of a part and how many there are, such as 3/16",
          words.part);
  const RefereeFile& file = asked.file;
  if (asked.options.out.empty())
    asked.options.out =
        (fs::path(file.sweep(file.points.front()).baseline_arm().recipe.train.out) / file.name).string();
  return asked;
}

std::string table_of(const Results& results, std::size_t width) {
  Table table("|point; |arm; |loss|>.4f; |gap|>+.4f; |95 % interval|>; |Holm p|>|2; |verdict");
  for (std::size_t point = 0; point < results.points.size(); ++point)
    for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
      double sum = 0, runs = 0;
      for (const auto& loss : results.losses(point, arm, results.judged()))
        if (loss) sum += *loss, ++runs;
      if (runs == 0) continue;
      auto& row = table.row(results.points[point].name, results.arms[arm].name, sum / runs, "-", "-", "-",
                            arm == results.baseline ? "baseline" : "-");
      for (const Gap& gap : results.gaps) {
        if (gap.point != point || gap.arm != arm || gap.stage != results.judged()) continue;
        row.cells[3] = gap.gap.mean, row.cells[6] = verdict_text(gap);
        if (gap.gap.pairs == 1) continue;
        row.cells[4] = fmt::format("{:+.4f} {:+.4f}", gap.gap.interval95[0], gap.gap.interval95[1]);
        row.cells[5] = fmt::format("{:.2g}", gap.holm);
      }
    }
  return table.text(width);
}

/// results.json and the page, into the folder.
Report published(Results results, const fs::path& folder, bool json, std::FILE* out, bool measured = true) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (measured) results.add_gaps(), judge(results);
  if (measured) write_atomically(folder / "results.json", json_text(value_of(results)));
  write_atomically(folder / "report.html", page(results));
  for (const auto& line : results.not_run) say(out, "not run: {}\n", line);
  if (!json) say(stdout, "\n{}", table_of(results, columns(stdout)));
  Report report;
  report.put("*", value_of(results));
  return report;
}

/// Hears each stage, and may train its runs.
using AtStage = std::function<void(StagePlan&, const std::string& name)>;
enum class Guess : bool { no, yes };

/// In turn tune, select, confirm: each when the ones before are over, or, with a guess, when what these will
/// choose can be stood in for. Returns what was measured.
Results through_stages(const Asked& in, const AtStage& at, Guess guess = Guess::no) {
  const RefereeFile& file = in.file;
  Results results = asked(file);
  results.complete = true;
  Choices choices{.tuned = {}, .arms = std::vector<std::size_t>(file.arms.size())};
  std::iota(choices.arms.begin(), choices.arms.end(), std::size_t(0));
  bool goes_on = true;
  for (const std::string name : {"tune", "select", "confirm"}) {
    const bool tunes = name == "tune", confirms = name == "confirm";
    const auto& seeds = tunes ? file.tune : confirms ? file.confirm : file.select;
    if (seeds.empty()) continue;
    if (!goes_on) {
      results.not_run.push_back(fmt::format("{}: it waits for the stage before it", name));
      break;
    }
    if (confirms) {
      choices.arms = chosen_arms(results);
      for (const std::size_t arm : choices.arms) results.arms[arm].chosen = true;
    }
    StagePlan stage = tunes ? plan_tune(in) : plan_points(in, choices, seeds);
    at(stage, name);
    std::size_t left = 0;
    for (const SweepRun& run : stage.sweep.runs) {
      left += run.state != RunState::finished;
      if (run.state == RunState::failed && run.record)
        results.not_run.push_back(fmt::format("{}: {}", stage.sweep.name_of(run), run.record->message));
    }
    if (left > 0)
      results.not_run.push_back(
          fmt::format("{}: {} of {} runs are not finished", name, left, stage.sweep.runs.size()));
    results.complete = results.complete && left == 0;
    goes_on = stage.over() || guess == Guess::yes;
    if (tunes)
      choices.tuned = add_tunes(results, file, stage);
    else
      add_runs(results, stage, confirms ? Stage::confirm : Stage::select);
  }
  return results;
}

}  // namespace

bool is_asked_for(const Words& words) {
  return words.report || !words.part.empty() || RefereeFile::is_one(words.sweep.file);
}

Report run_referee(const Words& words, const std::string& command, bool json) {
  outlive_readers();
  std::FILE* const out = json ? stderr : stdout;
  if (words.report && words.sweep.file.ends_with(".json")) {
    const fs::path beside = fs::path(words.sweep.file).parent_path();
    return published(read_results(words.sweep.file),
                     words.sweep.out.empty() ? beside : fs::path(words.sweep.out), json, out, false);
  }
  const Asked asked = asked_by(words);
  const fs::path folder = asked.options.out;
  const StopSignals signals;
  const auto nothing = [](StagePlan&, const std::string&) {};
  if (words.report) return published(through_stages(asked, nothing), folder, json, out);
  const auto locks =
      lock_folder(folder, out, asked.parts == 1 ? "" : fmt::format("-{}-of-{}", asked.part, asked.parts));
  std::vector<Error> failures;
  const auto train = [&](StagePlan& stage, const std::string& name) {
    SweepPlan& plan = stage.sweep;
    say(out, "{}: ", name);
    for (Error& error : train_runs(plan, command, out)) failures.push_back(std::move(error));
  };
  Results results;
  try {
    results = through_stages(asked, train);
  } catch (const Error& e) {
    if (e.code() == ExitCode::interrupted) (void)published(through_stages(asked, nothing), folder, json, out);
    throw;
  }
  if (asked.parts > 1) results = through_stages(asked, nothing);  // what other parts have trained meanwhile
  Report report = published(std::move(results), folder, json, out);
  report.problems = std::move(failures);
  return report;
}

Report referee_plan(const Words& words) {
  const Asked asked = asked_by(words);
  Report out;
  Table stages(
      "stage|stage; runs|runs|>; to_do|to do|>; jobs|at a time|>; expected_seconds|about|>; "
      "disk_bytes|disk|>");
  double seconds = 0;
  std::vector<std::string> notes;
  const Results results = through_stages(
      asked,
      [&](StagePlan& stage, const std::string& name) {
        const SweepPlan& plan = stage.sweep;
        const SweepTime time = expected_time(plan);
        stages.row(name, plan.runs.size(), plan.to_do(), plan.jobs,
                   Value(time.seconds, "a step takes seconds",
                         std::isfinite(time.seconds) ? duration_text(time.seconds) : "-"),
                   Value(plan.disk_needed, "", bytes_text(double(plan.disk_needed))));
        seconds += time.seconds;
        notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
      },
      Guess::yes);
  const Question& file = results.asked;
  out.line("sweep       {}: {} arms x {} points, tolerance {}\nbase        {}\ndata        {}, hash {}\n",
           file.file, results.arms.size(), results.points.size(), file.tolerance, file.base,
           results.data_file, results.data_hash);
  Table& points =
      out.table("points", "name|point; parameters|N|>; tokens|D|>; steps|steps|>; decay_steps|decay|>");
  for (const Point& p : results.points) points.row(p.name, p.parameters, p.tokens, p.steps, p.decay_steps);
  out.line("");
  Table& arms = out.table("arms", "name|arm; family|family; bits|bits|>.2f; differences|what differs");
  for (const Arm& arm : results.arms)
    arms.row(arm.name, arm.family, arm.bits,
             Value(arm.differences, "",
                   arm.differences.empty() ? "" : fmt::format("{}", fmt::join(arm.differences, "; "))));
  out.line("");
  out.table("stages", "") = stages;
  out.line(
      "\ntime        about {}, and validations\ntokens      {:.3g}; {:.3g} if each length were trained anew",
      duration_text(seconds), double(results.tokens_trained), double(results.tokens_apart));
  out.put("*",
          object("file", file.file, "folder", asked.options.out, "tokens_trained", results.tokens_trained,
                 "tokens_apart", results.tokens_apart, "expected_seconds", seconds, "notes", notes));
  for (const auto& note : notes) out.line("note: {}", note);
  return out;
}

}  // namespace mxtape::referee
