#pragma once
#include <cstddef>
#include <string_view>

#include "data/tokenizers/text/regex.h"

namespace mxtape {

/// Reads the text of a pattern: what is next, and the sets of characters in it.
class PatternReader {
 public:
  /// Throws Error(data) where it is not UTF-8.
  explicit PatternReader(std::string_view pattern);

 protected:
  /// Throws Error(data) with the column.
  [[noreturn]] void refuse(std::string_view what) const;
  bool at_end() const { return at_ == pattern_.size(); }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  /// `[...]`, `.`, `\p{L}`, `\s` or one character; not at the end. `any_case`: ASCII letters match both cases.
  CharacterSet set(bool any_case);
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  std::string_view pattern_;
  std::size_t at_ = 0;

 private:
  CharacterSet bracket(bool any_case);
  CharacterSet::Item item(bool any_case);
  CharacterSet::Item property(bool negated, bool any_case);
};

}  // namespace mxtape
