#pragma once
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {

inline std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(" \t"); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \t", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(" \t", end);
  }
  return words;
}

/// read(i, value) for each "key=value" of `text`, keys[i] its key; says which keys there were. Throws
/// Error(usage) that starts with `what` for a key that is none of them or comes twice.
template <std::size_t n, class Read>
std::array<bool, n> read_words(std::string_view what, std::string_view text,
                               const std::array<std::string_view, n>& keys, const Read& read) {
  std::array<bool, n> seen{};
  for (const std::string_view word : split(text)) {
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    const auto i = std::size_t(std::find(keys.begin(), keys.end(), key) - keys.begin());
    require(i < n, ExitCode::usage, "{}: unknown word '{}'{}", what, word, suggestion(key, keys));
    require(!seen[i], ExitCode::usage, "{}: '{}' is given twice", what, key);
    seen[i] = true;
    read(i, equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1));
  }
  return seen;
}

/// Which of `names` is the value of `key`; errors as read_words().
inline std::size_t index_of(std::string_view what, std::string_view key, std::string_view value,
                            std::span<const std::string_view> names) {
  const auto i = std::size_t(std::find(names.begin(), names.end(), value) - names.begin());
  require(i < names.size(), ExitCode::usage, "{}: unknown {}={}{}", what, key, value,
          suggestion(value, names));
  return i;
}

}  // namespace mxtape
