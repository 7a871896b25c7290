#include "program/sweep/sweep_progress.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/files/random_access.h"

namespace mxtape {
namespace {

/// The last step on record in a metrics.jsonl that is being written.
std::optional<RunLog::Point> last_step(const std::filesystem::path& metrics) {
  constexpr std::uint64_t tail = 2048;  // some ten records
  const RandomAccessFile file(metrics);
  std::string text(std::min(file.size(), tail), '\0');
  file.read(file.size() - text.size(), std::as_writable_bytes(std::span(text)));
  std::istringstream in(text);
  std::optional<RunLog::Point> last;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && record.contains("loss") && record["loss"].is_number())
      last = {record.value("step", std::int64_t{0}), record["loss"].get<double>()};
  }
  return last;
}

}  // namespace

SweepProgress::SweepProgress(std::FILE* out, const SweepPlan& plan)
    : out_(out),
      plan_(plan),
      line_(out, is_screen(out) ? std::chrono::milliseconds(500) : std::chrono::minutes(1)),
      runs_(plan.to_do()),
      steps_(0) {
  for (const SweepRun& run : plan.runs)
    if (run.to_do()) steps_ += run.steps - run.steps_done;
}

std::string SweepProgress::eta() const { return line_.eta(double(steps_done_) / double(steps_)); }

void SweepProgress::ended(const SweepRun& run, double seconds, const std::optional<RunLog>& log) {
  ++ended_runs_;
  ended_steps_ += run.steps - run.steps_done;
  steps_done_ = std::max(steps_done_, ended_steps_);
  const std::string result =
      log ? fmt::format("validation {:.4f} | {:.1f} ms a step | {:.0f} MiB", log->validation.back().loss,
                        log->median_milliseconds, run.record->peak_mib.value_or(0))
      : run.to_do() ? "saved, not finished"
                    : fmt::format("FAILED, exit code {}: {}", run.record->code, run.record->message);
  const int width = int(std::to_string(runs_).size());
  note(fmt::format("[{:>{}}/{}] {} | {} | {} | eta {}", ended_runs_, width, runs_, plan_.name_of(run), result,
                   duration_text(seconds), eta()));
}

std::string SweepProgress::status(std::span<const RunningRun> running) {
  steps_done_ = ended_steps_;
  std::string of_runs;
  for (const RunningRun& r : running) {
    const std::filesystem::path metrics = r.run->folder / "metrics.jsonl";
    std::error_code error;
    const auto written = std::filesystem::last_write_time(metrics, error);
    std::optional<RunLog::Point> last;
    std::string place = "starts";
    try {
      if (!error && written >= r.since) last = last_step(metrics);
    } catch (const Error&) {  // the run does without this line
      place = "cannot be read now";
    }
    if (last) {
      steps_done_ += std::max<std::int64_t>(last->step - r.run->steps_done, 0);
      place = fmt::format("{}/{} loss {:.4f}", last->step, r.run->steps, last->loss);
    }
    of_runs += fmt::format(" | {} {}", plan_.name_of(*r.run), place);
  }
  return fmt::format("runs {}/{} | {:.0f}% | eta {}{}", ended_runs_, runs_,
                     100 * double(steps_done_) / double(std::max<std::int64_t>(steps_, 1)), eta(), of_runs);
}

void SweepProgress::look(std::span<const RunningRun> running) {
  if (!line_.is_due()) return;
  std::string line = status(running);
  if (!line_.on_screen()) return note(line);
  // A line that wraps piles up instead of being overwritten.
  if (const std::size_t width = columns(out_); width > 1 && line.size() >= width) line.resize(width - 1);
  line_.draw(line);
}

}  // namespace mxtape
