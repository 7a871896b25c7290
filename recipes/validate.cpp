#include <limits>

#include "core/error.h"
#include "recipes/recipe.h"

namespace mxtape {

void validate(const Recipe& r) {
  GptConfig model = r.model;
  if (model.vocabulary == 0) model.vocabulary = 1;  // the data will say; whether it fits is seen there
  validate(model);
  require(r.schedule.warmup_steps <= r.train.steps, ExitCode::usage,
          "recipe {}: schedule.warmup_steps = {}; want at most train.steps = {}; for a short trial add "
          "--schedule.warmup_steps={}",
          r.name, r.schedule.warmup_steps, r.train.steps, r.train.steps / 10);
  // Random draws are keyed by the number of the forward pass, 32 bits (core/random.h).
  require(r.train.steps * r.train.accumulation <= std::numeric_limits<std::uint32_t>::max(), ExitCode::usage,
          "recipe {}: train.steps x train.accumulation = {} x {}; want less than 2^32", r.name, r.train.steps,
          r.train.accumulation);
  for (const auto& phase : r.precision.phases)
    require(
        phase.start < r.train.steps, ExitCode::usage,
        "recipe {}: precision.phases.start = {}; want less than train.steps = {}, or the phase never starts",
        r.name, phase.start, r.train.steps);
  for (const std::int64_t step : plan_changes(r)) (void)precision_plan(r, step);
}

}  // namespace mxtape
