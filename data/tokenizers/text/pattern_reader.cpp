#include "data/tokenizers/text/pattern_reader.h"

#include <algorithm>

#include "core/error.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

/// Both cases of each ASCII letter in the set. Source: CaseFolding.txt, simple foldings to ASCII.
void fold(CharacterSet& set) {
  const auto items = set.items;
  const auto has = [&](char32_t c) {
    return std::ranges::any_of(items, [&](const auto& i) { return c >= i.first && c <= i.last; });
  };
  const auto put = [&](char32_t c) { set.items.push_back({.first = c, .last = c}); };
  for (char32_t lower = 'a'; lower <= 'z'; ++lower) {
    const char32_t upper = lower - 'a' + 'A';
    if (!has(lower) && !has(upper)) continue;
    put(lower);
    put(upper);
    if (lower == 's') put(0x17f);
    if (lower == 'k') put(0x212a);
  }
}

}  // namespace

PatternReader::PatternReader(std::string_view pattern) : pattern_(pattern) {
  const std::size_t bad = first_bad_byte(pattern);
  require(bad == pattern.size(), ExitCode::data, "pattern: byte {} is not UTF-8", bad);
}

void PatternReader::refuse(std::string_view what) const {
  fail(ExitCode::data, "pattern {}: column {}: {} is not understood", shown_text(pattern_), at_ + 1, what);
}

CharacterSet PatternReader::set(bool any_case) {
  if (take("[")) return bracket(any_case);
  CharacterSet set;
  if (take(".")) {
    set.items.push_back({.first = '\n', .last = '\n'});
    set.negated = true;
    return set;
  }
  if (std::string_view("?*+{^").find(pattern_[at_]) != std::string_view::npos)
    refuse(fmt::format("'{}' here", pattern_[at_]));
  set.items.push_back(item(any_case));
  if (any_case) fold(set);
  return set;
}

CharacterSet PatternReader::bracket(bool any_case) {
  constexpr std::size_t most_items = 256;  // each is looked at for a character beyond ASCII
  CharacterSet set;
  set.negated = take("^");
  if (take("]")) refuse("an empty class");
  while (!take("]")) {
    if (at_end()) refuse("'[' without ']'");
    if (pattern_[at_] == '[' || pattern_.substr(at_).starts_with("&&")) refuse("a class in a class");
    CharacterSet::Item found = item(any_case);
    const bool range = pattern_.substr(at_).starts_with('-') && !pattern_.substr(at_).starts_with("-]");
    if (range) {
      ++at_;
      if (at_end()) refuse("'[' without ']'");
      const CharacterSet::Item last = item(any_case);
      if (found.first != found.last || last.first != last.last || last.first < found.first)
        refuse("this range");
      found.last = last.first;
    }
    if (set.items.size() == most_items) refuse("a class of more than 256 parts");
    set.items.push_back(found);
  }
  if (any_case) fold(set);
  return set;
}

/// A character, \p{..}, \s and so on.
CharacterSet::Item PatternReader::item(bool any_case) {
  const auto one = [](char32_t c) { return CharacterSet::Item{.first = c, .last = c}; };
  if (!take("\\")) {
    const Character c = known_character_at(pattern_.data() + at_);
    if (any_case && c.value >= 128) refuse("a letter beyond ASCII whose case does not matter");
    at_ += c.length;
    return one(c.value);
  }
  if (at_end()) refuse("a backslash at the end");
  const char c = pattern_[at_++];
  if (c == 'p' || c == 'P') return property(c == 'P', any_case);
  if (c == 's' || c == 'S') return {.spaces = true, .negated = c == 'S'};
  if (c == 'd' || c == 'D') return {.categories = *categories_named("Nd"), .negated = c == 'D'};
  if (c == 'n') return one('\n');
  if (c == 'r') return one('\r');
  if (c == 't') return one('\t');
  if (static_cast<unsigned char>(c) < 128 && !is_letter(c) && !(c >= '0' && c <= '9'))
    return one(char32_t(c));
  --at_;
  refuse(fmt::format("'\\{}'", static_cast<unsigned char>(c) < 128 ? std::string(1, c) : "..."));
}
CharacterSet::Item PatternReader::property(bool negated, bool any_case) {
  if (!take("{")) refuse("\\p without '{'");
  if (take("^")) negated = !negated;
  const std::size_t end = std::min(pattern_.find('}', at_), pattern_.size());
  const auto set = categories_named(pattern_.substr(at_, end - at_));
  if (!set || end == pattern_.size()) refuse("this property");
  const CategorySet cased = *categories_named("Lu") | *categories_named("Ll") | *categories_named("Lt");
  if (any_case && (*set & cased) != 0 && (*set & cased) != cased) refuse("a case where case does not matter");
  at_ = end + 1;
  return {.categories = *set, .negated = negated};
}

}  // namespace mxtape
