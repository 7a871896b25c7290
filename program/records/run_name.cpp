#include "program/records/run_name.h"

#include <string>

#include "core/error.h"
#include "core/files/status.h"
#include "core/text/nearest_name.h"
#include "core/text/number.h"
#include "core/text/program_name.h"
#include "program/records/run_folder.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// The steps of these checkpoints, newest first: all of a few, else the first ones.
std::string steps_of(const std::vector<fs::path>& files) {
  constexpr std::size_t most = 10;
  std::string text;
  for (std::size_t i = 0; i < files.size() && i < most; ++i)
    text += fmt::format("{}{}", i ? ", " : "", step_of_checkpoint(files[i]).value_or(0));
  return files.size() > most ? fmt::format("{} and {} more", text, files.size() - most) : text;
}

fs::path checkpoint_at(const fs::path& run, std::string_view word) {
  const std::int64_t step = number_of<std::int64_t>(word).value_or(-1);
  require(step >= 0, ExitCode::usage, "{}@{}: '{}' is no step; want RUN@STEP, such as {}@1000", run.string(),
          word, word, run.string());
  const auto files = list_checkpoints(run);
  for (const auto& file : files)
    if (step_of_checkpoint(file) == step) return file;
  fail(ExitCode::data, "{}: no checkpoint of step {}; it has {}", run.string(), step,
       files.empty() ? std::string("none") : "those of " + steps_of(files));
}

}  // namespace

std::string fault_of(const fs::path& file, std::optional<CheckpointFile>& whole) {
  try {
    whole.emplace(file);  // of the step in its name, too
    return "";
  } catch (const Error& e) {
    if (e.code() == ExitCode::data) return e.what();
    fail(e.code(),
         "{}; it may be whole, so no older checkpoint is taken in its place; to do without it, move it away",
         e.what());
  }
}

fs::path find_checkpoint(const fs::path& file_or_run) {
  if (!fs::is_directory(file_or_run)) return file_or_run;
  std::string faults;
  std::optional<CheckpointFile> whole;
  for (const auto& file : list_checkpoints(file_or_run)) {
    const std::string fault = fault_of(file, whole);
    if (fault.empty()) return file;
    faults += "\n  " + fault;
  }
  const bool foreign = faults.empty() && is_there(file_or_run / "config.json");
  fail(ExitCode::data, "{}: no checkpoint that can be used{}", file_or_run.string(),
       foreign ? fmt::format(
                     "; a model of another program: first `{} import {}`, which makes a run's folder of it",
                     program_name(), file_or_run.string())
       : faults.empty() ? "; want a checkpoint file or a run's folder"
                        : ":" + faults);
}

fs::path checkpoint_of(std::string_view run) {
  const fs::path path = run;
  std::error_code error;
  if (fs::exists(path, error) || error) return find_checkpoint(path);
  const auto at = run.rfind('@');
  if (at != std::string_view::npos && fs::is_directory(run.substr(0, at), error))
    return checkpoint_at(run.substr(0, at), run.substr(at + 1));
  fail(ExitCode::data, "{}{}: nothing of that name; want a checkpoint, a run's folder, or RUN@STEP", run,
       near_path(path));
}

std::string data_hash_of(const fs::path& run) {
  std::optional<CheckpointFile> whole;
  for (const fs::path& file : list_checkpoints(run))
    if (fault_of(file, whole).empty()) return whole->header().data_hash;
  return "";
}

}  // namespace mxtape
