#include "program/records/json_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/descriptor.h"

namespace mxtape {
namespace {

std::optional<std::int64_t> step_of(const std::string& line) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  const auto step = record.is_object() ? record.find("step") : record.end();
  if (!record.is_object() || step == record.end() || !step->is_number_integer()) return {};
  return step->get<std::int64_t>();
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
  file_ = retried([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644); });
  require(file_ >= 0, ExitCode::resource, "{}: cannot be written: {}", path.string(), std::strerror(errno));
  written_ = ::lseek(file_, 0, SEEK_END);
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const int error = sync_folder(folder);  // else a power cut leaves a checkpoint without its records
  require(error == 0, ExitCode::resource, "{}: cannot be synced: {}", folder.string(), std::strerror(error));
}

JsonLines::~JsonLines() { ::close(file_); }

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
    const ssize_t n = ::write(file_, pending_.data() + done, pending_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = errno;
      // No half of a record stays; all of it comes with the next try.
      [[maybe_unused]] const int cut = ::ftruncate(file_, written_);
      fail(ExitCode::resource, "{}: cannot be written: {}", path_.string(), std::strerror(error));
    }
    done += std::size_t(n);
  }
  written_ += off_t(pending_.size());
  pending_.clear();
}

void JsonLines::sync() {
  const bool synced = retried([&] { return ::fsync(file_); }) == 0;
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

}  // namespace mxtape
