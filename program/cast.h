#pragma once
#include <cstdint>
#include <string>

#include "recipes/recipe.h"

namespace mxtape {

/// In which precision a trained model is looked at.
struct Cast {
  /// "recipe": the one that it is trained in; a number format: weights and activations of all linear layers,
  /// the head's too, and nothing else; a recipe's name or file ("precision/nvfp4"): its precision.
  std::string precision = "recipe";
  bool weights_only = false;  ///< activations are f32, and attention

  /// "mxfp4, weights only".
  std::string text() const { return precision + (weights_only ? ", weights only" : ""); }
  /// Of a number format; 0 for others, which may have several. Throws Error(usage) for an unknown one.
  double bits_per_element() const;
  bool is_f32() const;
};

/// The recipe with that precision, from step 0 on, in place of its own at `step`. Throws Error(usage) for an
/// unknown format or recipe.
Recipe cast_recipe(const Recipe&, std::int64_t step, const Cast&);
PrecisionPlan cast_plan(const Recipe&, std::int64_t step, const Cast&);

}  // namespace mxtape
