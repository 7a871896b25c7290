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
#include "program/sweep/child_process.h"
#include "program/sweep/sweep_progress.h"

namespace mxtape {
namespace {

/// The message with which a run's process ended: from the last "mxtape: " of its log on.
std::string last_message(const std::filesystem::path& log) {
  std::string all;
  try {
    all = read_whole_text(log);
  } catch (const Error& e) {
    return fmt::format("its message is not known: {}", e.what());
  }
  const std::string mark = "\nmxtape: ";
  const auto at = all.rfind(mark);
  if (at == std::string::npos) return fmt::format("no message; see {}", log.string());
  std::string message = all.substr(at + mark.size());
  while (!message.empty() && message.back() == '\n') message.pop_back();
  return message;
}

/// Of a run whose process ended well: its records. Throws Error(data) if they were deleted, so that its
/// checkpoint says that nothing is left to do.
RunLog log_of(const SweepRun& run, std::int64_t steps) {
  std::optional<RunLog> log;
  try {
    log = log_of_whole_run(run.folder, steps);
  } catch (const std::exception&) {
    const Error e = current_error();
    fail(e.code(), "{}; the run itself ended well, and the same sweep once more takes it over", e.what());
  }
  require(log.has_value(), ExitCode::data,
          "{}: metrics.jsonl lacks the last validation; move the folder away, and the sweep trains it again",
          run.folder.string());
  return *std::move(log);
}

class Runner {
 public:
  Runner(SweepPlan& plan, std::FILE* out) : plan_(plan), progress_(out, plan) {
    for (std::size_t i = 0; i < plan.runs.size(); ++i)
      if (plan.runs[i].to_do()) waiting_.push_back(i);
  }

  void train() {
    while (!waiting_.empty() || !running_.empty()) {
      if (!stopped_ && StopSignals::received()) stop();
      while (!waiting_.empty() && running_.size() < std::size_t(plan_.jobs)) start_next();
      ::usleep(10'000);  // short beside any run; a signal ends it at once
      std::vector<RunningRun> shown;
      for (std::size_t i = 0; i < running_.size();) {
        if (const auto end = running_[i].process->poll()) {
          const std::size_t run = running_[i].run;
          running_.erase(running_.begin() + std::ptrdiff_t(i));
          finish(plan_.runs[run], *end);
        } else {
          shown.push_back({&plan_.runs[running_[i].run], running_[i].since});
          ++i;
        }
      }
      progress_.look(shown);
    }
  }

 private:
  struct Running {
    std::size_t run;
    std::unique_ptr<ChildProcess> process;
    std::filesystem::file_time_type since;
  };

  void start_next() {
    const SweepRun& run = plan_.runs[waiting_.front()];
    std::error_code error;
    if (!run.stale.empty()) std::filesystem::remove(record_file(run.folder), error);  // another run's
    const Recipe recipe = plan_.recipe_of(run);
    const std::vector<std::string> words{"train",
                                         plan_.recipe_file(run).string(),
                                         "--seed=" + std::to_string(run.seed),
                                         "--name=" + recipe.name,
                                         "--train.out=" + recipe.train.out,
                                         "--compute.threads=" + std::to_string(plan_.threads),
                                         "--resume",
                                         run.stale.empty() ? "auto" : "no"};
    const auto since = std::filesystem::file_time_type::clock::now();
    running_.push_back({waiting_.front(), std::make_unique<ChildProcess>(words, run.log), since});
    waiting_.pop_front();
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
    if (saved || untouched) {
      const auto checkpoints = list_checkpoints(run.folder);
      run.state = checkpoints.empty() ? RunState::fresh : RunState::unfinished;
      run.steps_done = checkpoints.empty() ? 0 : step_of_checkpoint(checkpoints.front()).value_or(0);
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
        log = log_of(run, plan_.steps());
      } catch (const Error& e) {  // of this look at the run, not of the run: the next sweep looks again
        run.record->code = int(e.code()), run.record->message = e.what();
      }
    if (!saved) run.state = log ? RunState::finished : RunState::failed;
    progress_.ended(run, end.seconds, log);
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

}  // namespace

void train_runs(SweepPlan& plan, const std::string& command, std::FILE* out) {
  Runner(plan, out).train();
  if (!StopSignals::received() || plan.to_do() == 0) return;
  const auto count = [&](RunState state) {
    return std::count_if(plan.runs.begin(), plan.runs.end(), [&](auto& run) { return run.state == state; });
  };
  fail(ExitCode::interrupted,
       "stopped by {}: {} of {} runs are finished, {} saved on their way\nto go on: {}",
       StopSignals::name_of(StopSignals::received()), count(RunState::finished), plan.runs.size(),
       count(RunState::unfinished), command);
}

}  // namespace mxtape
