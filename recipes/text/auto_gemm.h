#pragma once
#include "recipes/recipe.h"

namespace mxtape {

/// compute.gemm = auto becomes library in a recipe with source=shared anywhere: codes serve one axis alone.
void settle_auto_gemm(Recipe&);

}  // namespace mxtape
