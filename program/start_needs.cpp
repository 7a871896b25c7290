// What both check and train want before a run begins.
#include <algorithm>

#include "core/error.h"
#include "program/check.h"
#include "recipes/recipe.h"
#include "recipes/text/idle_keys.h"

namespace mxtape {

double disk_needed(const MemoryPlan& plan, const TrainConfig& t) {
  double count = saves_meanwhile(t) ? double(std::min(t.keep, t.steps)) + 1 : 1;
  if (t.keep_every > 0) count += double(t.steps / t.keep_every);
  if (t.keep_best) ++count;
  if (t.on_divergence == OnDivergence::rollback) ++count;  // to go back to
  return double(plan.checkpoint()) * count;
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

void require_reached_starts(const Recipe& recipe, std::int64_t step) {
  require(recipe.schedule.start <= step && recipe.optim.start <= step, ExitCode::usage,
          "recipe {}: schedule.start = {}, optim.start = {}; the run begins at step {}; want none above it: "
          "--fresh sets them, for a branch",
          recipe.name, recipe.schedule.start, recipe.optim.start, step);
}

}  // namespace mxtape
