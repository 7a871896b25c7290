#include "program/records/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/files/atomic_file.h"

namespace mxtape {
namespace {

std::optional<std::int64_t> step_of(const std::string& line) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) return {};
  return record["step"].get<std::int64_t>();
}

}  // namespace

JsonLines::JsonLines(const std::filesystem::path& path, std::int64_t steps_done,
                     const std::function<bool(const std::string&)>& stale)
    : path_(path) {
  std::filesystem::path aside = path;
  aside.replace_extension(".broken.txt");
  // Records up to `steps_done` stay. A line that is no record, and is not the last one, as a crash leaves it,
  // was damaged: what stands around it stays. A file that cannot be read throws, and stays as it is.
  std::string text, kept, broken;
  if (std::filesystem::exists(path)) text = read_whole_text(path);
  std::vector<std::size_t> lines;  // broken ones
  std::istringstream in(text);
  std::size_t number = 1;
  for (std::string line; std::getline(in, line) && !in.eof(); ++number)
    if (const auto step = step_of(line); !step)
      broken += line + "\n", lines.push_back(number);
    else if (*step <= steps_done && !(stale && stale(line)))
      kept += line + "\n", last_ = line;
  if (!broken.empty())
    write_atomically(aside, (std::filesystem::exists(aside) ? read_whole_text(aside) : "") + broken);
  if (!text.starts_with(kept))
    write_atomically(path, kept);
  else if (kept.size() < text.size())
    std::filesystem::resize_file(path, kept.size());
  if (!lines.empty())
    note_ = fmt::format("{}:{}: {}; moved to {}, the records around stay", path.string(), lines.front(),
                        lines.size() == 1 ? std::string("this line is no record")
                                          : fmt::format("{} lines from here on are no records", lines.size()),
                        aside.string());
  file_ = Descriptor(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
  require(bool(file_), ExitCode::resource, "{}: cannot be written: {}", path.string(), std::strerror(errno));
  written_ = ::lseek(file_.number(), 0, SEEK_END);
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const int error = sync_folder(folder);  // else a power cut leaves a checkpoint without its records
  require(error == 0, ExitCode::resource, "{}: cannot be synced: {}", folder.string(), std::strerror(error));
}

void JsonLines::add(const std::string& records) {
  const std::string last = records.substr(records.rfind('\n') + 1);
  if (last == last_) return;
  last_ = last;
  pending_ += records + '\n';
  flush();
}

void JsonLines::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t n = file_.write(std::as_bytes(std::span(pending_)).subspan(done));
    if (n <= 0) {
      const int error = errno;
      // No half of a record stays; all of it comes with the next try.
      [[maybe_unused]] const int cut = ::ftruncate(file_.number(), written_);
      fail(ExitCode::resource, "{}: cannot be written: {}", path_.string(), std::strerror(error));
    }
    done += std::size_t(n);
  }
  written_ += off_t(pending_.size());
  pending_.clear();
}

void JsonLines::sync() {
  const bool synced = file_.sync();
  require(synced, ExitCode::resource, "{}: cannot be written to the disk: {}", path_.string(),
          std::strerror(errno));
}

std::string records_after(const std::filesystem::path& path, std::int64_t step) {
  if (!std::filesystem::exists(path)) return "";
  std::string records;
  std::istringstream in(read_whole_text(path));
  for (std::string line; std::getline(in, line);)
    if (const auto at = step_of(line); at && *at > step) records += line + "\n";
  return records;
}

Metrics::Metrics(const std::filesystem::path& jsonl, const std::filesystem::path& events,
                 std::int64_t steps_done, const std::string& recipe,
                 const std::function<bool(const std::string&)>& stale)
    : events_(events, steps_done), lines_(jsonl, steps_done, stale) {
  // In a fence, as TensorBoard reads texts as Markdown.
  events_.text("recipe", steps_done, "```\n" + recipe + "```\n", seconds_since_1970());
  events_.flush();
}

void Metrics::step(const StepRecord& r) {
  lines_.add(fmt::format(
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
  lines_.add(text + "}");
  const double now = seconds_since_1970();
  events_.scalar("loss/validation", step, loss, now);
  if (floor) events_.scalar("loss/gap_to_floor", step, loss - *floor, now);
  events_.flush();
}

}  // namespace mxtape
