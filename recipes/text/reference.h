#pragma once
#include <string>

namespace mxtape {

/// docs/recipes.md: how recipes are read, every key with default, accepted values and meaning, the slots, the
/// shipped recipes. Written from the knob table; a test compares it with the file.
std::string recipe_reference();

}  // namespace mxtape
