#pragma once
#include <functional>

#include "data/loader.h"
#include "dist/devices.h"
#include "nn/model.h"
#include "recipes/recipe.h"
#include "train/validation_windows.h"

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

/// i32 [batch, time] on the device.
Tensor upload_tokens(Backend&, const std::vector<std::int32_t>&, Shape);
/// A f32 [1] on the host.
float download_scalar(Backend&, const Tensor&);

}  // namespace mxtape
