#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mxtape {

/// The first place where a text is nested too deep to be a recipe.
struct Nesting {
  std::size_t line, column;  ///< from 1, column in bytes
  std::string what;          ///< what was found, and what is wanted
};

/// toml++ calls itself for every part of a dotted key and for every array in an array, so a text of some
/// 100,000 bytes ends the program on an overflowing stack. A recipe needs a depth of three. This looks at the
/// text without parsing it: what it lets through may still be no TOML.
std::optional<Nesting> too_deep(std::string_view text);

}  // namespace mxtape
