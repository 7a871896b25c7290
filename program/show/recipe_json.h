#pragma once
#include "program/show/report.h"
#include "recipes/knobs.h"

namespace mxtape {

/// A knob's present value as the JSON type that it is. A float is the double with the fewest digits that
/// narrows back to it, as in a recipe's text.
Value value_of(const Knob&);

/// Every key of a recipe in full, "train.steps", with its value and who set it; then its rules and phases.
Value recipe_json(const Recipe&);

/// Of each phase: what each operand rounds to, and what multiplies it: the table of
/// recipes/text/precision_table.h.
std::vector<Value> precision_json(const Recipe&);

}  // namespace mxtape
