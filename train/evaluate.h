#pragma once
#include <functional>

#include "data/loader.h"
#include "dist/devices.h"
#include "nn/model.h"
#include "recipes/recipe.h"

namespace mxtape {

struct EvaluateOptions {
  std::int64_t windows = 0;     ///< the first so many; 0: the whole split
  std::int64_t batch_size = 1;  ///< windows at a time, at least; more where the logits stay small
  PassKey pass{};  ///< of the pass that follows in training: shared weight copies get the same draws
  std::function<void(std::int64_t done, std::int64_t total)> progress{};
  std::function<void(const Tensor&)> losses{};  ///< hears those of each batch [windows x context], in order
  Devices* devices = nullptr;                   ///< that share the batches; null: one
};

struct Evaluation {
  double loss = 0;  ///< mean -log p(next token) [nats per token]
  std::int64_t tokens = 0;
  std::int64_t windows = 0, of_windows = 0;  ///< seen, and in the split
};

/// Mean loss over consecutive windows of the model's context. Each window starts without history, so the mean
/// is a little above what a longer memory would give. Throws Error(diverged) if the loss is not finite.
/// Losses are added in the order of the batches, whichever device computes them.
Evaluation evaluate(Backend&, Model&, const Split&, const EvaluateOptions&);

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

/// i32 [batch, time] on the device.
Tensor upload_tokens(Backend&, const std::vector<std::int32_t>&, Shape);
/// A f32 [1] on the host.
float download_scalar(Backend&, const Tensor&);

}  // namespace mxtape
