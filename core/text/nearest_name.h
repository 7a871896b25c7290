#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// Edits that turn `a` into `b`: a letter inserted, deleted or replaced, or two neighbours swapped (optimal
/// string alignment; Damerau 1964).
int edit_distance(std::string_view a, std::string_view b);

/// The known names with the smallest edit distance to `word`, all of them if several tie, in the order of
/// `known`, capitals and small letters being the same, letters left out counting half, and what follows a '-'
/// one. A name is near by the whole of it or by what follows its last '/'. Empty if even these are no likely misspelling: more than two
/// edits and more than a third of the letters.
std::vector<std::string_view> nearest_names(std::string_view word, std::span<const std::string_view> known);

/// " a b c"; of more than forty names the first ones, " and 41 more".
std::string listed(std::span<const std::string_view> names);

/// The end of an error message about an unknown word: "; did you mean 'optim.beta1'?", or, if nothing is
/// near, "; known: constant linear cosine wsd".
std::string suggestion(std::string_view word, std::span<const std::string_view> known);

/// " (near: 'runs/tales')" behind a path that is not there: what its folder has under a name like it. Empty if
/// that is nothing.
std::string near_path(const std::filesystem::path&);

}  // namespace mxtape
