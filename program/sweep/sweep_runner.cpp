#include "program/sweep/sweep_plan.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <memory>
#include <vector>

#include "core/current_error.h"
#include "core/files/atomic_file.h"
#include "program/records/run_folder.h"
#include "program/records/run_log.h"
#include "program/run/stop_signals.h"
#include "program/show/streams.h"
#include "program/sweep/child_process.h"
#include "program/sweep/sweep_progress.h"

namespace mxtape {
namespace {

/// The message with which a run's process ended: from the last "mxtape: " of its log on.
std::string last_message(const std::filesystem::path& log) try {
  const std::string all = "\n" + read_whole_text(log), mark = "\nmxtape: ";
  const auto at = all.rfind(mark);
  if (at == std::string::npos) return fmt::format("no message; see {}", log.string());
  return all.substr(at + mark.size(), all.find_last_not_of('\n') + 1 - at - mark.size());
} catch (const Error& e) {
  return fmt::format("its message is not known: {}", e.what());
}

class Runner {
 public:
  Runner(SweepPlan& plan, std::FILE* out) : plan_(plan), progress_(out, plan) {
    for (std::size_t i = 0; i < plan.runs.size(); ++i)
      if (plan.runs[i].to_do()) waiting_.push_back(i);
    // The short ones first: a sweep that is stopped has whole points.
    std::ranges::stable_sort(waiting_, {}, [&](std::size_t i) { return plan.runs[i].steps; });
  }

  void train() {
    while (!waiting_.empty() || !running_.empty()) {
      if (!stopped_ && StopSignals::received()) stop();
      while (running_.size() < std::size_t(plan_.jobs) && start_next()) continue;
      if (running_.empty()) break;  // what still waits has a trunk that failed
      ::usleep(10'000);             // short beside any run; a signal ends it at once
      std::vector<RunningRun> shown;
      std::erase_if(running_, [&](const Running& running) {
        const auto end = running.process->poll();
        if (end)
          finish(plan_.runs[running.run], *end);
        else
          shown.push_back({&plan_.runs[running.run], running.since});
        return end.has_value();
      });
      progress_.look(shown);
    }
  }

 private:
  struct Running {
    std::size_t run;
    std::unique_ptr<ChildProcess> process;
    std::filesystem::file_time_type since;
  };

  bool start_next() {
    const auto next = std::ranges::find_if(waiting_, [&](std::size_t i) {
      const SweepRun* trunk = plan_.trunk_of(plan_.runs[i]);
      return !trunk || trunk->state == RunState::finished;
    });
    if (next == waiting_.end()) return false;
    const SweepRun& run = plan_.runs[*next];
    std::error_code error;
    if (!run.stale.empty()) std::filesystem::remove(record_file(run.folder), error);  // another run's
    const Recipe recipe = plan_.recipe_of(run);
    std::vector<std::string> words{"train",
                                   plan_.recipe_file(run).string(),
                                   "--seed=" + std::to_string(run.seed),
                                   "--name=" + recipe.name,
                                   "--train.out=" + recipe.train.out,
                                   "--compute.threads=" + std::to_string(plan_.threads),
                                   "--resume",
                                   run.stale.empty() ? "auto" : "no"};
    if (const SweepRun* trunk = plan_.trunk_of(run))
      words.insert(words.end(), {"--from", fmt::format("{}@{}", trunk->folder.string(), trunk->steps)});
    const auto since = std::filesystem::file_time_type::clock::now();
    running_.push_back({*next, std::make_unique<ChildProcess>(words, run.log), since});
    waiting_.erase(next);
    return true;
  }

  void stop() {
    stopped_ = true;
    waiting_.clear();
    for (const Running& running : running_) running.process->stop();
  }

  void finish(SweepRun& run, const ChildProcess::End& end) {
    const bool saved = end.code == int(ExitCode::interrupted);
    // One that was asked to stop before it could catch the signal.
    const bool untouched = stopped_ && end.code == 128 + SIGTERM;
    const auto saves = list_checkpoints(run.folder);
    const auto step = saves.empty() ? std::nullopt : step_of_checkpoint(saves.front());
    if (saved || untouched) {
      run.state = step ? RunState::unfinished : RunState::fresh;
      run.steps_done = step.value_or(run.first_step);
      if (stopped_) return;
    }
    run.stale.clear();
    const RunRecord record{.arithmetic = plan_.arithmetics[run.arm],
                           .data_hash = plan_.data_hash,
                           .code = end.code,
                           .message = end.code == 0 ? "" : last_message(run.log),
                           .seconds = end.seconds,
                           .peak_mib = end.peak_mib,
                           .threads = plan_.threads};
    run.record = record;
    std::optional<RunLog> log;
    if (end.code == 0) try {
        // Its records may have been deleted, so that its checkpoint says that nothing is left to do.
        log = log_of_whole_run(run.folder, run.steps);
        require(log.has_value(), ExitCode::data,
                "{}: metrics.jsonl lacks the last validation; move the folder away, and the sweep trains it "
                "again",
                run.folder.string());
      } catch (const std::exception&) {  // of this look at the run: the next sweep looks again
        run.record->code = int(current_error().code()), run.record->message = current_error().what();
      }
    if (!saved) run.state = log ? RunState::finished : RunState::failed;
    progress_.ended(run, end.seconds, log);
    if (!log) run.steps_done = step.value_or(run.first_step);  // as the next sweep will find it
    try {
      // Of one that could not even make its folder there is nothing to note.
      std::error_code unknown;
      if (std::filesystem::is_directory(run.folder, unknown) || unknown) write_record(run.folder, record);
    } catch (const std::exception& e) {  // the run itself is whole, and known by its own files
      progress_.note(fmt::format("{}: {}", plan_.name_of(run), e.what()));
    }
  }

  SweepPlan& plan_;
  SweepProgress progress_;
  std::deque<std::size_t> waiting_;
  std::vector<Running> running_;
  bool stopped_ = false;
};

/// Of the runs that did not end well: those that failed, and those that somebody else's signal stopped.
std::vector<Error> problems(const SweepPlan& plan) {
  std::vector<Error> all;
  for (const bool saved : {false, true}) {
    std::string runs;
    int code = 0, count = 0;
    for (const SweepRun& run : plan.runs) {
      if (run.state == RunState::finished || !run.record || run.record->code == 0 || run.to_do() != saved)
        continue;
      if (count++ == 0) code = run.record->code;
      runs += fmt::format("\n  {}: exit code {}: {}\n    {}", plan.name_of(run), run.record->code,
                          run.record->message.substr(0, run.record->message.find('\n')), run.log.string());
    }
    if (count == 0) continue;
    // A signal's number is no exit code of ours; SIGKILL is what a machine without memory sends.
    if (code > 128) code = int(code == 137 ? ExitCode::resource : ExitCode::internal);
    all.emplace_back(
        ExitCode(code),
        fmt::format("{} of {} runs {}:{}", count, plan.runs.size(),
                    saved ? "stopped and saved; run the same sweep again to go on with" : "failed", runs));
  }
  return all;
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

std::vector<Error> train_runs(SweepPlan& plan, const std::string& command, std::FILE* out) {
  for (const SweepRun& run : plan.runs)
    if (run.seed == plan.sweep.seeds.front())
      write_atomically(plan.recipe_file(run), to_toml(plan.sweep.arms[run.arm].recipe));
  if (plan.to_do() == 0)
    say(out, "nothing to do\n");
  else
    say(out, "{} of {} runs to do, {} at a time, {} each\n", plan.to_do(), plan.runs.size(), plan.jobs,
        counted(plan.threads, "thread"));
  Runner(plan, out).train();
  if (!StopSignals::received() || plan.to_do() == 0) return problems(plan);
  const auto count = [&](RunState state) { return std::ranges::count(plan.runs, state, &SweepRun::state); };
  fail(ExitCode::interrupted,
       "stopped by {}: {} of {} runs are finished, {} saved on their way\nto go on: {}",
       StopSignals::name_of(StopSignals::received()), count(RunState::finished), plan.runs.size(),
       count(RunState::unfinished), command);
}

}  // namespace mxtape
