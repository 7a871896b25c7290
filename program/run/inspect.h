#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/observers/measure.h"
#include "program/records/oscillation.h"
#include "program/records/spectrum.h"
#include "recipes/recipe.h"

namespace mxtape {

struct InspectOptions {
  std::string device, data;        ///< empty: the recipe's
  std::vector<Quantizer> formats;  ///< tried on every operand besides its own
  std::int64_t sample = 1 << 16;   ///< numbers of an operand
  bool spectra = false;
};

/// The operands of a trained model's linear layers in one training step that is thrown away: weights as the
/// checkpoint has them, activations and gradients of the step's batch.
struct Inspection {
  std::string checkpoint, data;
  std::int64_t step = 0;
  Recipe recipe;
  Measurements found;
  std::vector<Oscillation::Found> weights;                          ///< over the step's update
  std::map<std::pair<std::string, std::string>, Spectrum> spectra;  ///< by layer and tensor: "x", "w", "dy"
};

/// `run`: what checkpoint_of() takes. Throws Error(data) if it is not there or the data does not fit.
Inspection inspect(const std::string& run, const InspectOptions&);

}  // namespace mxtape
