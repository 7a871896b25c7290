#pragma once
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace mxtape {

/// What rules of precision do to each other, a sentence each, in a time that grows with their number as
/// reading them does.
struct RuleNotes {
  std::vector<std::string> idle;     ///< rules without which every plan is the same
  std::vector<std::string> nearest;  ///< rules that round a gradient to nearest that was rounded at random
};

RuleNotes rule_notes(const Recipe&);

}  // namespace mxtape
