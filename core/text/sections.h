#pragma once
#include <string_view>

namespace mxtape {

/// What stands below the line "[name]" of a text, up to the next such line. Throws Error(internal) if there
/// is none.
std::string_view section_of(std::string_view text, std::string_view name);

}  // namespace mxtape
