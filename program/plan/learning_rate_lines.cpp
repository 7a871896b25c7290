#include "program/plan/learning_rate_lines.h"

#include <fmt/format.h>

namespace mxtape {
namespace {

float rate_at(const Recipe& recipe, std::int64_t step) {
  return recipe.optim.learning_rate * learning_rate_factor(recipe.schedule, step, recipe.train.steps);
}

}  // namespace

std::vector<std::string> learning_rate_lines(const Recipe& parent, const Recipe& branch, std::int64_t step) {
  const bool parent_is_done = step >= parent.train.steps;
  const float here = rate_at(branch, step), there = rate_at(parent, parent_is_done ? step - 1 : step);
  std::string line = fmt::format("learning rate {:.3g}", here);
  if (parent_is_done)
    line += fmt::format("; the parent ended with {:.3g}", there);
  else if (here != there)
    line += fmt::format("; {:.3g} in the parent's next step", there);
  else
    line += ", as in the parent's next step";
  std::vector<std::string> lines{line};
  const bool touched =
      branch.schedule != parent.schedule || branch.optim.learning_rate != parent.optim.learning_rate;
  if (!touched && here != there)
    lines.push_back(
        fmt::format("  as the schedule ends with train.steps, {} -> {}; to hold the rate: "
                    "--schedule.kind=constant --schedule.warmup_steps=0 --optim.learning_rate={:.3g}",
                    parent.train.steps, branch.train.steps, there));
  return lines;
}

}  // namespace mxtape
