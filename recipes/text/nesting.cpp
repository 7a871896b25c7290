#include "recipes/text/table_reader.h"

#include <algorithm>

namespace mxtape {
namespace {

constexpr int most_parts = 32, most_brackets = 32;

/// The position behind the text in quotes that begins at `at`. A text in single quotes that is not closed
/// ends with its line, as toml++ refuses it there.
std::size_t behind_quotes(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool lines = text.substr(at).starts_with(three);
  for (std::size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\')
      ++i;
    else if (lines && text.substr(i).starts_with(three))  // with up to two quotes of the text before
      return std::min(text.find_first_not_of(quote, i), i + 5);
    else if (!lines && (text[i] == quote || text[i] == '\n'))
      return i + 1;
  }
  return text.size();
}

Nesting nesting_at(std::string_view text, std::size_t at, std::string what) {
  const auto before = text.substr(0, at);
  return {std::size_t(std::ranges::count(before, '\n')) + 1, at - before.rfind('\n'), std::move(what)};
}

}  // namespace

std::optional<Nesting> too_deep(std::string_view text) {
  int parts = 1, brackets = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = behind_quotes(text, i);
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') brackets = std::max(brackets - 1, 0);
    if (c == '.') ++parts;
    if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') parts = 1;
    if (parts > most_parts)
      return nesting_at(text, i, fmt::format("a key of more than {} parts; want section.key", most_parts));
    if (brackets > most_brackets)
      return nesting_at(
          text, i,
          fmt::format("more than {} brackets in one another; want at most a list of tables", most_brackets));
    ++i;
  }
  return {};
}

}  // namespace mxtape
