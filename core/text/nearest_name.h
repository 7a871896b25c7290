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
/// `known`. Capitals and small letters are the same. Letters left out count half, all that follows a '-' one.
/// A name is near by the whole of it or by what follows its last '/'. Empty if the distance is more than two
/// and more than a third of the letters: no likely misspelling.
std::vector<std::string_view> nearest_names(std::string_view word, std::span<const std::string_view> known);

/// The names of rows, as `known`. They lie in the rows.
std::vector<std::string_view> names_in(const auto& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

/// " a b c"; of more than forty names the first ones, " and 41 more".
std::string listed(std::span<const std::string_view> names);

/// The end of an error message about an unknown word: "; did you mean 'optim.beta1'?", or, if nothing is
/// near, "; known: constant linear cosine wsd"; nothing where nothing is known.
std::string suggestion(std::string_view word, std::span<const std::string_view> known);

/// " (near: 'runs/tales')": what stands under a like name where a path is not; empty if nothing does.
std::string near_path(const std::filesystem::path&);

}  // namespace mxtape
