#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "nn/model.h"

namespace mxtape {

struct DiffusionOptions {
  double damping = 0.01;  ///< added to the diagonal of each Gram matrix, in units of its mean; GPTQ's default
  std::function<void(std::size_t done, std::size_t all)> progress{};  ///< layers
};

/// What became of one layer's weight.
struct LayerDiffusion {
  std::string layer, format;
  std::int64_t rows = 0, cols = 0;
  /// ||X (W - Q)^T|| / ||X W^T|| on the calibration's inputs X: of a direct cast, and of what it became.
  double direct_error = 0, error = 0;
  std::int64_t dead_inputs = 0;  ///< 0 in every row of X
  std::int64_t moved = 0;        ///< Diffused::moved
};

/// Replaces the weights of the model's linear layers by numbers of the formats in which its precision rounds
/// them (fprop.w), by error diffusion on the inputs that the layers see in one pass over `calibration`.
/// Layers are taken in the order of the computation: the inputs of each are those that the model has with the
/// layers before it already replaced, and rounded as its precision rounds them (fprop.x). Left as they are:
/// layers whose weights are not rounded, and tied ones, because the embedding reads the same numbers. All
/// windows of `calibration` are in memory at once; logits are never made. Throws Error(usage) for a format
/// that cannot be diffused, or a rotated weight; Error(diverged) for numbers that are not finite. Messages
/// name the layer.
std::vector<LayerDiffusion> diffuse_weights(Backend&, Model&, const Batch& calibration, const PassKey&,
                                            const DiffusionOptions& = {});

/// Names of the layers that diffuse_weights() replaces, in that order. Throws Error(usage) for those it could
/// not; nothing is computed.
std::vector<std::string> layers_to_diffuse(Model&);

/// Bytes on the host for `tokens` tokens of calibration: diffusion_bytes() of the largest layer, and its
/// inputs.
std::int64_t diffusion_bytes(Model&, std::int64_t tokens);

}  // namespace mxtape
