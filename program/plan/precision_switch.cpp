#include "program/plan/precision_switch.h"

#include <cmath>

#include "program/plan/rollback.h"
#include "recipes/rollbacks.h"
#include "recipes/telemetry.h"

namespace mxtape {

void require_switch(const Recipe& recipe) {
  const float error = recipe.precision.switch_error;
  const auto coming = coming_rollbacks(recipe);
  const auto next = std::int64_t(recipe.train.rollbacks.size()) + 1;
  if (error == 0 || (coming.empty() && next > 1)) return;
  const TelemetryPlan measured = telemetry_plan(recipe);
  require(recipe.telemetry.every > 0 && measured.wants(measured.layers.front(), "wgrad.dw") &&
              !coming.empty() && coming.back() == next + std::ssize(coming) - 1,
          ExitCode::usage,
          "recipe {}: precision.switch_error = {} wants telemetry.every above 0, wgrad.dw among "
          "telemetry.slots, and [[precision.phases]] with start_rollback = {} and on, none left out",
          recipe.name, error, next);
}

std::optional<Turn> switch_precision(Trainer& trainer, const std::optional<Telemetry>& telemetry) {
  const Recipe& recipe = trainer.recipe();
  if (!telemetry || trainer.finished() || !may_switch(recipe, trainer.steps_done())) return {};
  double squares = 0, count = 0;
  for (const auto& gradient : telemetry->last().gradients)
    if (gradient.slot == "wgrad.dw") squares += gradient.relative_error * gradient.relative_error, ++count;
  const double error = count > 0 ? std::sqrt(squares / count) : 0;
  if (error <= double(recipe.precision.switch_error)) return {};
  trainer.begin_phase(Rollback{trainer.steps_done(), trainer.steps_done(), true}.text());
  Turn turn = turns_of_rollbacks(recipe, recipe.train.rollbacks.size() - 1).front();
  turn.changed.push_back(fmt::format("relative error of the weights' gradients: {:.3f}", error));
  return turn;
}

}  // namespace mxtape
