#pragma once
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// What a recipe's precision does that its author may not have meant, a sentence each: those of
/// recipes/text/reach_notes.h, a head that the broad keys leave in f32, rules that round a gradient to
/// nearest that was rounded stochastically before, rules that change nothing, Hadamard transforms and
/// straight-through kinds of operands that nothing quantizes, and, where integer GEMMs are preferred, formats
/// that keep a quantized GEMM from being one.
std::vector<std::string> precision_notes(const Recipe&);

}  // namespace mxtape
