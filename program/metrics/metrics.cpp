#include "program/metrics/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/retried.h"

namespace mxtape {
namespace {

/// What stays of a log, and what is wrong with it.
struct Sorted {
  std::string kept, broken;
  std::string last;  ///< line that stays
  std::vector<std::size_t> broken_lines;
};

/// Records up to `steps_done` stay. A line that is no record, and is not the last one, as a crash leaves it,
/// was damaged: what stands around it stays.
Sorted sort_lines(const std::string& text, std::int64_t steps_done) {
  Sorted sorted;
  std::istringstream in(text);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    ++number;
    const auto record = nlohmann::json::parse(line, nullptr, false);
    const auto step = record.is_object() ? record.find("step") : record.end();
    if (!record.is_object() || step == record.end() || !step->is_number_integer()) {
      sorted.broken += line + "\n";
      sorted.broken_lines.push_back(number);
    } else if (step->get<std::int64_t>() <= steps_done) {
      sorted.kept += line + "\n";
      sorted.last = line;
    }
  }
  return sorted;
}

/// Takes out of `path` what is later than `steps_done`, and lines that are no records; those go to the end of
/// `aside`. A file that cannot be read throws, and stays as it is.
Sorted put_in_order(const std::filesystem::path& path, const std::filesystem::path& aside,
                    std::int64_t steps_done) {
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_whole_text(path);
  Sorted sorted = sort_lines(text, steps_done);
  if (!sorted.broken.empty())
    write_atomically(aside, (std::filesystem::exists(aside) ? read_whole_text(aside) : "") + sorted.broken);
  if (text.starts_with(sorted.kept))
    std::filesystem::resize_file(path, sorted.kept.size());
  else
    write_atomically(path, sorted.kept);
  return sorted;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Metrics::Metrics(const std::filesystem::path& jsonl, const std::filesystem::path& events,
                 std::int64_t steps_done, const std::string& recipe)
    : jsonl_path_(jsonl), events_(events, steps_done) {
  const std::filesystem::path aside = jsonl.parent_path() / "metrics.broken.txt";
  const Sorted sorted = put_in_order(jsonl, aside, steps_done);
  last_line_ = sorted.last;
  if (const auto& lines = sorted.broken_lines; !lines.empty())
    note_ = fmt::format("{}:{}: {}; moved to {}, the records around stay", jsonl.string(), lines.front(),
                        lines.size() == 1 ? std::string("this line is no record")
                                          : fmt::format("{} lines from here on are no records", lines.size()),
                        aside.string());
  file_ = retried([&] { return ::open(jsonl.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644); });
  require(file_ >= 0, ExitCode::resource, "{}: cannot be written: {}", jsonl.string(), std::strerror(errno));
  written_ = ::lseek(file_, 0, SEEK_END);
  const auto folder = jsonl.has_parent_path() ? jsonl.parent_path() : std::filesystem::path(".");
  const bool named = sync_folder(folder);  // else a power cut leaves a checkpoint without its records
  require(named, ExitCode::resource, "{}: cannot be synced: {}", folder.string(), std::strerror(errno));
  // In a fence, as TensorBoard reads texts as Markdown.
  events_.text("recipe", steps_done, "```\n" + recipe + "```\n", seconds_since_1970());
  events_.flush();
}

Metrics::~Metrics() { ::close(file_); }

void Metrics::step(const StepRecord& r) {
  line(fmt::format(
      R"({{"step":{},"loss":{},"norm":{},"learning_rate":{},"ms":{:.3f},"tokens_per_second":{:.0f}}})",
      r.step, r.loss, r.norm, r.learning_rate, r.milliseconds, r.tokens_per_second));
  const double now = seconds_since_1970();
  events_.scalar("loss/train", r.step, r.loss, now);
  events_.scalar("gradient/norm", r.step, r.norm, now);
  events_.scalar("learning_rate", r.step, r.learning_rate, now);
  events_.scalar("speed/ms_per_step", r.step, r.milliseconds, now);
  events_.scalar("speed/tokens_per_second", r.step, r.tokens_per_second, now);
  events_.flush();
}

void Metrics::validation(std::int64_t step, double loss, std::optional<double> floor) {
  std::string text = fmt::format(R"({{"step":{},"validation_loss":{},"perplexity":{})", step, loss,
                                 std::isfinite(std::exp(loss)) ? fmt::format("{}", std::exp(loss)) : "null");
  if (floor) text += fmt::format(R"(,"floor":{},"gap":{})", *floor, loss - *floor);
  line(text + "}");
  const double now = seconds_since_1970();
  events_.scalar("loss/validation", step, loss, now);
  if (floor) events_.scalar("loss/gap_to_floor", step, loss - *floor, now);
  events_.flush();
}

void Metrics::line(const std::string& text) {
  if (text == last_line_) return;  // a run that begins again where it had begun
  last_line_ = text;
  pending_ += text + '\n';
  flush();
}

void Metrics::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t n = ::write(file_, pending_.data() + done, pending_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      // No half of a record stays; all of it comes with the next try.
      [[maybe_unused]] const int cut = ::ftruncate(file_, written_);
      fail(ExitCode::resource, "{}: cannot be written: {}", jsonl_path_.string(), std::strerror(error));
    }
    done += std::size_t(n);
  }
  written_ += off_t(pending_.size());
  pending_.clear();
}

void Metrics::sync() {
  const bool synced = retried([&] { return ::fsync(file_); }) == 0;
  require(synced, ExitCode::resource, "{}: cannot be written to the disk: {}", jsonl_path_.string(),
          std::strerror(errno));
}

}  // namespace mxtape
