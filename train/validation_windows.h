#pragma once
#include "nn/model.h"
#include "recipes/recipe.h"

namespace mxtape {

/// Windows of each of a run's validations where the split has `all` of them. train.eval_windows = auto: as
/// many as take at most a fifth of the work of the steps between two validations, at least one. Work is
/// counted in tokens, of which a training step's cost three times as much as a validation's (forward and two
/// products backward): no clock has a say.
std::int64_t validation_windows(const TrainConfig&, std::int64_t all);
/// The share of the whole run's work, counted so, that validations of so many windows take.
double validation_share(const TrainConfig&, std::int64_t windows);

/// Windows of one pass of evaluate(). Nothing is saved for backward, so more fit than in training: as many as
/// keep the widest tensor at 4 Mi elements (16 MiB), where the matrices are large enough to run at full
/// speed.
std::int64_t validation_windows_at_a_time(const ModelConfig&, std::int64_t batch_size);

}  // namespace mxtape
