#include "program/start_needs.h"

#include <algorithm>

#include "core/text/program_name.h"
#include "program/room.h"
#include "program/run_folder.h"
#include "recipes/text/idle_keys.h"

namespace mxtape {

TokenFile read_data(const Recipe& recipe) {
  require(!recipe.data.file.empty(), ExitCode::usage,
          "recipe '{0}': data.file is not set; make a token file with `{1} prepare` or `{1} corpus`",
          recipe.name, program_name());
  return TokenFile::read(recipe.data.file);
}

std::vector<Error> short_splits(const Recipe& recipe, const TokenFile& data) {
  std::vector<Error> problems;
  for (const auto& [name, split] :
       {std::pair{"train", &data.train}, std::pair{"validation", &data.validation}})
    if (split->count() <= recipe.model.context)
      problems.emplace_back(ExitCode::data,
                            fmt::format("{}: its {} split has {} tokens; want more than model.context = {}",
                                        recipe.data.file, name, split->count(), recipe.model.context));
  return problems;
}

std::int64_t room_to_start(const MemoryPlan& plan, const Recipe& recipe) {
  return checkpoint_bytes(plan, recipe) + record_bytes(recipe);
}

double disk_needed(const MemoryPlan& plan, const Recipe& recipe) {
  const TrainConfig& t = recipe.train;
  double count = saves_meanwhile(t) ? double(std::min(t.keep, t.steps)) + 1 : 1;
  if (t.keep_every > 0) count += double(t.steps / t.keep_every);
  if (t.keep_best) ++count;
  if (t.on_divergence == OnDivergence::rollback) ++count;  // to go back to
  return double(checkpoint_bytes(plan, recipe)) * count + double(record_bytes(recipe));
}

std::string lack_of_room(const MemoryPlan& plan, const Recipe& recipe, const std::filesystem::path& run) {
  double needed = disk_needed(plan, recipe);
  std::error_code unknown;
  for (const auto& file : list_checkpoints(run)) needed -= double(std::filesystem::file_size(file, unknown));
  const auto free = double(free_bytes(run));
  if (needed <= free) return "";
  return fmt::format(
      "{}: all checkpoints that are kept, and the records, will need {}; {} are free, so the run may end "
      "before its last step; lower train.keep, raise train.keep_every, or change train.out",
      run.string(), bytes_text(needed), bytes_text(free));
}

}  // namespace mxtape
