#include "program/plan/resume.h"

#include <algorithm>

#include "core/files/atomic_file.h"
#include "core/text/nearest_name.h"
#include "program/records/run_log.h"
#include "program/records/run_name.h"
#include "program/show/report.h"
#include "recipes/knobs.h"

namespace mxtape {
namespace {

/// Whether a recipe file sets every key as `recipe` does. One that cannot be read does not.
bool says_the_same(const std::filesystem::path& file, const Recipe& recipe) {
  try {
    Recipe there = recipe_from_toml(read_whole_text(file), file.string());
    if (there.train.rollbacks.size() > recipe.train.rollbacks.size())  // they come again
      there.train.rollbacks.resize(recipe.train.rollbacks.size());
    return differences(there, recipe).empty();
  } catch (const Error&) {
    return false;
  }
}

/// The steps of an attempt that left no checkpoint are lost: Metrics cuts its records off.
Beginning from_the_beginning(const RunPaths& folder, std::int64_t first_step) {
  Beginning start;
  try {
    const RunLog log = read_run_log(folder.path());
    const std::int64_t steps = log.train.back().step - log.train.front().step + 1;
    start.notes.push_back(fmt::format("an earlier attempt of {} left no checkpoint; starting at step {}",
                                      counted(steps, "step"), first_step));
  } catch (const Error&) {  // no records, or none that could be missed
  }
  return start;
}

}  // namespace

bool is_allowed(const std::string& key, const std::vector<std::string>& allowed) {
  return std::ranges::any_of(allowed, [&](const auto& a) { return key == a || key.starts_with(a + "."); });
}

Beginning choose_start(const RunPaths& folder, const std::string& resume, std::int64_t first_step) {
  const auto files = folder.checkpoints();
  Beginning start;
  if (resume.empty()) {
    if (files.empty()) return from_the_beginning(folder, first_step);
    fail(ExitCode::usage,
         "{}: holds {}, the newest {}; add --resume auto to go on, --resume no to start again "
         "(what is there is kept), or --name=... to run elsewhere",
         folder.path().string(), counted(files.size(), "checkpoint"), files.front().filename().string());
  }
  if (resume == "no") {
    start.archive = !files.empty() || std::filesystem::exists(folder.metrics());
    return start;
  }
  if (resume != "auto") {
    const std::filesystem::path chosen = resume;
    require(std::filesystem::exists(chosen), ExitCode::data,
            "--resume: '{}' is no file; want auto, no or a checkpoint's path; a run in other formats "
            "branches with --from RUN",
            resume);
    std::error_code error;
    require(files.empty() || std::filesystem::equivalent(files.front(), chosen, error), ExitCode::usage,
            "{}: the run's folder holds {}, which is not the file to resume from; give the new branch its "
            "own --name",
            resume, files.empty() ? "" : files.front().string());
    start.file = chosen, start.from = Beginning::From::checkpoint;
    return start;
  }
  if (files.empty()) {
    start = from_the_beginning(folder, first_step);
    if (start.notes.empty())
      start.notes.push_back(fmt::format("no checkpoint yet; starting at step {}", first_step));
    return start;
  }
  std::string first_fault;
  for (const auto& file : files) {
    const std::string fault = fault_of(file, start.checkpoint);
    if (first_fault.empty()) first_fault = fault;
    if (fault.empty()) {
      start.file = file, start.from = Beginning::From::checkpoint;
      break;
    }
    start.notes.push_back("rejected " + fault);
    start.rejected.push_back(file);
  }
  require(start.file.has_value(), ExitCode::data,
          "{}: none of its {} checkpoints can be used; the newest: {}; --resume no starts again",
          folder.path().string(), files.size(), first_fault);
  return start;
}

std::vector<std::string> set_earlier_aside(const RunFolder& folder, const Beginning& start) {
  for (const auto& file : start.rejected) folder.set_aside(file);
  if (!start.archive) return {};
  return {fmt::format("the earlier run was moved to {}", folder.archive().string())};
}

void require_known_changes(const std::vector<std::string>& allowed) {
  Recipe recipe;
  recipe.precision.switch_error = 1;  // so that what it reads may be named
  std::vector<std::string_view> known{"data", "precision.rules"};
  const auto all = knobs(recipe);
  for (const Knob& knob : all) {
    if (!knob.section().empty() && std::find(known.begin(), known.end(), knob.section()) == known.end())
      known.push_back(knob.section());
    known.push_back(knob.name);
  }
  for (const auto& word : allowed) {
    require(std::find(known.begin(), known.end(), word) != known.end(), ExitCode::usage,
            "--allow-change: '{}' is no key or section of a recipe, nor data{}", word,
            suggestion(word, known));
    require(changes_numbers(recipe, word), ExitCode::usage,
            "--allow-change: {} may always differ, as it changes no number; leave it out{}", word,
            word == "data.file" ? ", or name data, the content of the file" : "");
  }
}

std::vector<std::string> check_changes(const CheckpointHeader& header, const Recipe& recipe,
                                       const std::string& data_hash,
                                       const std::vector<std::string>& allowed) {
  require(header.step <= recipe.train.steps, ExitCode::usage,
          "resume: the checkpoint is at step {}, train.steps = {}; want at least as many steps", header.step,
          recipe.train.steps);
  auto changes = differences(header.recipe, without_whereabouts(recipe));
  if (header.data_hash != data_hash)
    changes.push_back(fmt::format("data: {} -> {}", header.data_hash, data_hash));
  std::string refused, idle;
  for (const auto& change : changes) {
    const std::string key = key_of(change);
    if (!changes_numbers(recipe, key)) continue;
    idle += "\n  " + change;
    if (!is_allowed(key, allowed))
      refused += fmt::format("\n  {}; allow it with --allow-change {}", change, key);
  }
  require(idle.empty() || header.step < recipe.train.steps, ExitCode::usage,
          "resume: all {} steps are done, so what differs from the checkpoint's recipe has no effect:{}\nto "
          "go on, add a larger --train.steps and --allow-change train.steps; --resume no starts again",
          header.step, idle);
  require(refused.empty(), ExitCode::usage,
          "resume: the recipe differs from the checkpoint's where numbers change:{}", refused);
  return changes;
}

void settle_gemm(ComputeConfig& compute, const ComputeConfig* checkpoint) {
  if (compute.gemm != GemmChoice::automatic) return;
  const bool integer =
      (checkpoint && checkpoint->device == compute.device ? *checkpoint : compute).gemm_kernels() ==
      GemmKernels::integer;
  compute.gemm = integer ? GemmChoice::integer : GemmChoice::library;
}

void write_recipe(const RunFolder& folder, const Beginning& start, std::int64_t step, const Recipe& recipe) {
  const std::string text = to_toml(recipe);
  std::error_code error;
  const bool goes_on =
      start.file && std::filesystem::equivalent(std::filesystem::absolute(*start.file).parent_path(),
                                                folder.checkpoint(step).parent_path(), error);
  if (goes_on) {
    std::filesystem::path then = folder.recipe();                 // of the last steps before the checkpoint
    for (const auto& [until, file] : folder.earlier_recipes()) {  // the last one first
      if (until < step) break;
      if (then != folder.recipe()) std::filesystem::remove(then);
      then = file;
    }
    if (std::filesystem::exists(then)) {
      if (!says_the_same(then, recipe))
        std::filesystem::rename(then, folder.recipe_until(step));
      else if (then != folder.recipe())
        std::filesystem::remove(then);
    }
  }
  if (!start.file)  // its steps come again from the first one on
    for (const auto& [until, file] : folder.earlier_recipes()) std::filesystem::remove(file);
  write_atomically(folder.recipe(), text);
}

}  // namespace mxtape
