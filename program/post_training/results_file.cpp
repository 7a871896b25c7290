#include "program/post_training/results_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/json_reason.h"
#include "program/post_training/models_of_settings.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// What may be another without another number in the table: names of files, and what is derived from the
/// rest.
bool decides_nothing(const std::string& key) {
  return key == "checkpoint" || key == "data" || key == "results" || key == "f32" || key == "floor_reason" ||
         key == "diffusion_bytes" || key == "cast_directly";
}

/// But for the lock of a process that ended before its first result.
bool holds_nothing(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator files(folder, error);
  return !error && std::all_of(begin(files), end(files),
                               [](const auto& file) { return file.path().filename() == ".lock"; });
}

std::string differences(const Json& before, const Json& now) {
  std::string text;
  for (const auto& [key, value] : now.items())
    if (!decides_nothing(key) && before.value(key, Json()) != value)
      text += fmt::format("\n  {}: {} -> {}", key, before.value(key, Json()).dump(), value.dump());
  return text;
}

std::string listed(std::string_view when, const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += fmt::format("\n  {}: {}", when, line);
  return text;
}

}  // namespace

ResultsFile::ResultsFile(const fs::path& folder, const PostTraining& subject) {
  if (folder.empty()) return;
  path_ = folder / "results.json";
  std::error_code error;
  const bool there = fs::exists(path_, error);
  require(there || !fs::exists(folder, error) || holds_nothing(folder), ExitCode::usage,
          "{}: this folder holds other files; name a new one with --out", folder.string());
  fs::create_directories(folder, error);
  require(!error, ExitCode::resource, "{}: the folder cannot be made: {}", folder.string(), error.message());
  const fs::path lock = folder / ".lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  require(lock_ >= 0, ExitCode::resource, "{}: cannot be written: {}", lock.string(), std::strerror(errno));
  const bool free = ::flock(lock_, LOCK_EX | LOCK_NB) == 0;
  if (!free) ::close(lock_);
  require(free, ExitCode::resource, "{}: another process is at work in this folder; name another --out",
          folder.string());
  if (there) read(subject);
}

ResultsFile::~ResultsFile() {
  if (lock_ >= 0) ::close(lock_);
}

void ResultsFile::read(const PostTraining& subject) {
  try {
    const Json json = Json::parse(read_whole_text(path_));
    const std::string other = differences(json, *value_of(subject).json);
    require(other.empty(), ExitCode::usage,
            "{}: its results are of other options:{}\nname another folder with --out, or ask as then",
            path_.string(), other);
    for (const Json& result : json.at("results")) measurements_.push_back(measurement_of(result));
  } catch (const nlohmann::json::exception& e) {
    fail(ExitCode::data, "{}: not results of mxtape post-training: {}; name another folder with --out",
         path_.string(), json_reason(e));
  }
}

void ResultsFile::check(const std::string& precision, Setting setting,
                        const std::vector<std::string>& changed) const {
  for (const Measurement& m : measurements_) {
    require(m.precision == precision || folder_name(m.precision) != folder_name(precision), ExitCode::usage,
            "{}: has results of --precision '{}', and models of '{}' would have the same names; name another "
            "folder with --out",
            path_.string(), m.precision, precision);
    require(m.precision != precision || m.setting != setting || m.changed == changed, ExitCode::usage,
            "{}: --precision '{}' meant something else when it was measured:{}{}\nname another folder with "
            "--out, or give the file another name",
            path_.string(), precision, listed("then", m.changed), listed("now", changed));
  }
}

std::optional<Measurement> ResultsFile::find(const std::string& precision, Setting setting, bool kept) const {
  const auto found = std::find_if(measurements_.begin(), measurements_.end(), [&](const Measurement& m) {
    return m.precision == precision && m.setting == setting;
  });
  if (found == measurements_.end()) return {};
  const bool has_model = is_diffused(setting) || setting == Setting::finetuned;
  if (kept && has_model && found->loss && found->kept.empty()) return {};
  return *found;
}

void ResultsFile::write(const PostTraining& results) const {
  if (path_.empty()) return;
  PostTraining all = results;
  for (const Measurement& old : measurements_) {
    const bool measured = std::any_of(all.measurements.begin(), all.measurements.end(), [&](const auto& m) {
      return m.precision == old.precision && m.setting == old.setting;
    });
    if (!measured) all.measurements.push_back(old);
  }
  write_atomically(path_, json_text(value_of(all)));
}

Value value_of(const PostTraining& p) {
  std::vector<Value> results;
  for (const Measurement& m : p.measurements) results.push_back(value_of(m, p.f32));
  return object("checkpoint", p.checkpoint, "checkpoint_hash", p.checkpoint_hash, "step", p.step, "data",
                p.data, "data_hash", p.data_hash, "arithmetic", p.arithmetic, "windows", p.windows,
                "all_windows", p.all_windows, "context", p.context, "calibration",
                object("split", "train", "windows", p.calibration, "seed", p.seed), "damping", p.damping,
                "diffusion_bytes", p.diffusion_bytes, "cast_directly", p.tied, "finetune",
                object("steps", p.finetune.steps, "sequences_per_step", p.finetune_batch, "learning_rate",
                       p.finetune.learning_rate),
                "attention", p.attention, "floor", Value(p.floor, "the data does not carry its entropy"),
                "f32", p.f32, "results", results);
}

}  // namespace mxtape
