#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/categories.h"

namespace mxtape {

/// A set of code points: the union of its items, or what is in none of them.
struct CharacterSet {
  struct Item {
    char32_t first = 1, last = 0;  // a range; none if first > last
    CategorySet categories = 0;
    bool spaces = false, negated = false;
  };
  std::vector<Item> items;
  bool negated = false;
  bool ascii[128] = {};  // the answers, filled in by finish()

  void finish();
  bool has(char32_t c) const { return c < 128 ? ascii[c] : look_up(c); }

 private:
  bool look_up(char32_t c) const;
};

/// Regular expressions as tokenizer.json files have them: Oniguruma's Ruby syntax, with the part of it that
/// splitters of words use.
///   literals, classes, \p{L} \P{L} \s \S \d \D \n \r \t, escaped signs, ., (...), (?:...), (?i:...),
///   (?=...), (?!...), |, ? * + {m} {m,} {,n} {m,n}, possessive ?+ *+ ++, $
/// As there, {m,n}+ repeats, $ ends a line, and . is anything but \n. In (?i:...) ASCII letters match both
/// cases, s also U+017F and k U+212A.
/// A backtracking matcher with its stack on the heap: a long text cannot overflow the program's stack.
class Regex {
 public:
  /// Throws Error(data) for anything else, with what and its column.
  explicit Regex(std::string_view pattern);

  /// The work that all matches in a text may take, in steps: an instruction, or a character that one walks
  /// over. Patterns in use take fewer than 50 a byte.
  struct Budget {
    explicit Budget(std::size_t bytes) : steps(50'000'000 + 1000 * std::int64_t(bytes)), left(steps) {}
    std::int64_t steps, left;
  };

  static constexpr std::size_t none = std::size_t(-1);
  /// The end of the match that begins at `at` in a text that is UTF-8, or none. Throws Error(data) where the
  /// budget is spent, or where more than 2^24 ways are to be kept in mind.
  std::size_t match(std::string_view text, std::size_t at, Budget&) const;
  std::size_t match(std::string_view text, std::size_t at) const {
    Budget budget(text.size());
    return match(text, at, budget);
  }

 private:
  friend class RegexParser;
  enum class Op : std::uint8_t {
    one,       // a character of the set
    repeat,    // low to high characters of the set, as many as fit; gives back unless possessive
    split,     // goes on at the next instruction, or, if that fails, at `target`
    jump,      // to `target`
    look,      // what follows this instruction, up to its `accept`, fits here (or does not); on at `target`
    atomic,    // the same, and its end is taken; nothing of it is tried again
    line_end,  // before \n, or at the end
    accept,
  };
  struct Instruction {
    Op op;
    bool negated = false, possessive = false;
    std::uint32_t set = 0, target = 0, low = 0, high = 0;
  };
  struct Run;
  std::size_t run(std::size_t pc, std::size_t at, Run&) const;
  /// The end of up to instruction.high characters of its set from `at`; none if there are fewer than low.
  /// `least` becomes the end of the first `low` of them.
  std::size_t repeat(const Instruction&, Run&, std::size_t at, std::size_t& least) const;

  std::vector<Instruction> program_;
  std::vector<CharacterSet> sets_;
};

}  // namespace mxtape
