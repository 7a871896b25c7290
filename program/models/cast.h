#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// In which precision a trained model is looked at.
struct Cast {
  /// "recipe": the one that it is trained in; a number format: weights and activations of all linear layers,
  /// the head's too, and nothing else; formats of operands: "weights=mxfp4, activations=mxfp8,
  /// attention=mxfp8, head=f32", f32 for what is not named; a recipe's name or file ("precision/nvfp4"): its
  /// precision.
  std::string precision = "recipe";
  bool weights_only = false;  ///< activations are f32, and attention
  bool attention = false;     ///< a number format: attention's operands, too

  /// "mxfp4, weights only".
  std::string text() const {
    return precision + (weights_only ? ", weights only" : attention && is_format() ? ", attention too" : "");
  }
  /// Of a number format; 0 for others, which may have several. Throws Error(usage) for an unknown one.
  double bits_per_element() const;
  bool is_f32() const;
  bool is_format() const;  ///< one for all
};

/// --precision of the commands that cast, in their help.
inline constexpr const char* precision_help =
    "a format for weights and activations of all linear layers (mxtape formats lists them); one per operand, "
    "as in \"weights=mxfp4, activations=mxfp8, attention=mxfp8, head=f32\", f32 for what is not named; "
    "'recipe' for the precision it was trained with; or another recipe's, such as precision/nvfp4 or "
    "rules.toml";
inline constexpr const char* attention_help =
    "a single format is attention's operands' as well: q, k, p and v";

/// Throws Error(usage) if --attention would change nothing: beside --weights-only, or where no precision is a
/// single format.
void check_attention(bool attention, bool weights_only, const std::vector<std::string>& precisions);

/// The recipe with that precision, from step 0 on, in place of its own at `step`. Throws Error(usage) for an
/// unknown format or recipe.
Recipe cast_recipe(const Recipe&, std::int64_t step, const Cast&);
PrecisionPlan cast_plan(const Recipe&, std::int64_t step, const Cast&);

}  // namespace mxtape
