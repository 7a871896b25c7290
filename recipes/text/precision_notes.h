#pragma once
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// Those of [precision], then those of its phases: as differences() counts them.
std::vector<PrecisionRule> all_rules(const Recipe&);

/// What a recipe's precision does that its author may not have meant, a sentence each: nothing_quantized(),
/// rules without slots that round attention's operands where precision.attention is f32, a head that the
/// broad keys leave in f32, rules that round a gradient to nearest that was rounded stochastically before,
/// rules that change nothing, Hadamard transforms and straight-through kinds of operands that nothing
/// quantizes, and, where integer GEMMs are preferred, formats that keep a quantized GEMM from being one.
std::vector<std::string> precision_notes(const Recipe&);
/// A note that a form of file does not say what the forward pass rounds besides the weights of linear layers:
/// "mxfp4, mxfp8". If it rounds nothing, none.
void note_activations(const PrecisionPlan&, const char* form, std::vector<std::string>& notes);

/// A sentence if formats are asked for and no operand of any step is quantized, as rules take them all back;
/// or "".
std::string nothing_quantized(const Recipe&);

/// What rules of precision do to each other, a sentence each, in a time that grows with their number as
/// reading them does.
struct RuleNotes {
  std::vector<std::string> idle;     ///< rules without which every plan is the same
  std::vector<std::string> nearest;  ///< rules that round a gradient to nearest that was rounded at random
};
RuleNotes rule_notes(const Recipe&);

}  // namespace mxtape
