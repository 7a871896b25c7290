#include "data/tokenizers/text/scanners.h"

#include "data/tokenizers/text/categories.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

/// Walks over a text that is UTF-8.
class Cursor {
 public:
  Cursor(std::string_view text, std::size_t at) : text_(text), at_(at), table_(CharacterTable::get()) {}
  std::size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  char byte() const { return at_end() ? '\0' : text_[at_]; }
  bool at_line_end() const { return !at_end() && (text_[at_] == '\n' || text_[at_] == '\r'); }

  /// -1 at the end. Sets the length for step().
  int peek() {
    if (at_end()) return -1;
    const Character c = known_character_at(text_.data() + at_);
    length_ = c.length;
    return table_.classify(c.value);
  }
  void step() { at_ += length_; }
  void step(std::size_t bytes) { at_ += bytes; }
  /// Over characters of this class, at most `most`.
  void run(int wanted, int most = -1) {
    for (; most != 0 && peek() == wanted; --most) step();
  }

  /// 's 't 're 've 'm 'll 'd at an apostrophe: their length, or 0. In any case, U+017F is an s.
  std::size_t contraction(bool any_case) const {
    const auto letter_at = [&](std::size_t i) {
      const char c = at_ + i < text_.size() ? text_[at_ + i] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? char(c | 0x20) : c;
    };
    const char a = letter_at(1), b = letter_at(2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    return any_case && text_.substr(at_ + 1, 2) == "\u017f" ? 3 : 0;
  }

  /// \s+(?!\S)|\s+ at white space: all of it at the end of the text, else all but its last sign, or one.
  std::size_t white_space_end() {
    const std::size_t begin = at_;
    std::size_t last = at_;
    while (peek() == white_space) {
      last = at_;
      step();
    }
    return at_end() || last == begin ? at_ : last;
  }

 private:
  std::string_view text_;
  std::size_t at_, length_ = 0;
  const CharacterTable& table_;
};

std::size_t gpt2_word(std::string_view text, std::size_t at) {
  Cursor cursor(text, at);
  if (cursor.byte() == '\'')
    if (const std::size_t length = cursor.contraction(false)) return at + length;
  if (cursor.byte() == ' ') cursor.step(1);
  const int kind = cursor.peek();
  if (kind < 0 || kind == white_space) return Cursor(text, at).white_space_end();
  cursor.run(kind);
  return cursor.at();
}

std::size_t llama3_word(std::string_view text, std::size_t at, int digits) {
  Cursor cursor(text, at);
  if (cursor.byte() == '\'')
    if (const std::size_t length = cursor.contraction(true)) return at + length;
  int kind = cursor.peek();
  if (kind == number) {
    cursor.run(number, digits);
    return cursor.at();
  }
  if (kind != letter && !cursor.at_line_end()) {  // one sign may stand before letters
    const bool blank = cursor.byte() == ' ';
    cursor.step();
    const int next = cursor.peek();
    if (next == letter || (blank && next == other_sign)) kind = next;
  }
  if (kind == letter) {
    cursor.run(letter);
    return cursor.at();
  }
  if (kind == other_sign) {
    cursor.run(other_sign);
    while (cursor.at_line_end()) cursor.step(1);
    return cursor.at();
  }
  Cursor space(text, at);
  std::size_t after_line_end = at;
  while (space.peek() == white_space) {
    const bool line_end = space.at_line_end();
    space.step();
    if (line_end) after_line_end = space.at();
  }
  return after_line_end > at ? after_line_end : Cursor(text, at).white_space_end();
}

constexpr KnownPattern patterns[] = {
    {"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", gpt2_word},
    {"llama3",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [](std::string_view text, std::size_t at) { return llama3_word(text, at, 3); }},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     [](std::string_view text, std::size_t at) { return llama3_word(text, at, 1); }},
};

}  // namespace

const KnownPattern* known_pattern_named(std::string_view name) {
  for (const KnownPattern& known : patterns)
    if (known.name == name) return &known;
  return nullptr;
}

const KnownPattern* known_pattern(std::string_view pattern) {
  for (const KnownPattern& known : patterns)
    if (known.pattern == pattern) return &known;
  return nullptr;
}

}  // namespace mxtape
