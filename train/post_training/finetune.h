#pragma once
#include "recipes/recipe.h"

namespace mxtape {

struct FinetuneConfig {
  std::int64_t steps = 100;
  float learning_rate = 0;  ///< 0: a tenth of the run's peak
};

/// The recipe with which a run goes on after `step` steps, for a few more: batches, seed, moments and all
/// else are those of `target`, whose precision is the one to get used to. The learning rate warms up over a
/// tenth of the steps and falls straight to 0.
inline Recipe finetuning_recipe(Recipe target, std::int64_t step, const FinetuneConfig& config) {
  if (config.learning_rate > 0)
    target.optim.learning_rate = config.learning_rate;
  else
    target.optim.learning_rate /= 10;
  target.schedule = {.kind = ScheduleKind::linear,
                     .warmup_steps = config.steps / 10,
                     .final_fraction = 0,
                     .decay_fraction = target.schedule.decay_fraction,
                     .start = step};
  target.train.steps = step + config.steps;
  return target;
}

}  // namespace mxtape
