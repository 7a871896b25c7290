#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"

#include "data/tokenizers/text/pattern_reader.h"
#include "data/tokenizers/text/regex.h"

namespace mxtape {

/// Writes the program of a pattern by recursive descent: alternatives of sequences of repeated atoms.
class RegexParser : PatternReader {
 public:
  RegexParser(std::string_view pattern, Regex& out) : PatternReader(pattern), out_(out) {
    alternatives(false, 0);
    if (!at_end()) refuse("')' without '('");
    emit({.op = Op::accept});
  }

 private:
  using Op = Regex::Op;
  static constexpr std::uint32_t unlimited = std::uint32_t(-1);
  static constexpr std::size_t largest_program = 4096;
  static constexpr int deepest = 32;

  std::uint32_t here() const { return std::uint32_t(out_.program_.size()); }
  std::uint32_t emit(Regex::Instruction i) {
    if (out_.program_.size() >= largest_program) refuse("a pattern of more than 4096 steps");
    out_.program_.push_back(i);
    return here() - 1;
  }
  std::uint32_t add(CharacterSet set) {
    set.finish();
    out_.sets_.push_back(std::move(set));
    return std::uint32_t(out_.sets_.size() - 1);
  }

  /// Returns whether it can match nothing. Alternatives become a chain of splits.
  bool alternatives(bool any_case, int depth) {
    if (depth > deepest) refuse("deeper nesting");
    bool may_be_empty = false, anchor = false;
    std::vector<std::uint32_t> ends;
    while (true) {
      const std::uint32_t begin = here();
      may_be_empty |= sequence(any_case, depth);
      anchor |= anchor_;
      if (!take("|")) break;
      insert(begin, {.op = Op::split});
      ends.push_back(emit({.op = Op::jump}));
      out_.program_[begin].target = here();
    }
    for (const std::uint32_t end : ends) out_.program_[end].target = here();
    anchor_ = anchor;
    return may_be_empty;
  }

  bool sequence(bool any_case, int depth) {
    bool empty = true;
    char before = 0;  // the literal before, where case does not matter
    int parts = 0;
    for (anchor_ = false; !at_end() && pattern_[at_] != '|' && pattern_[at_] != ')'; ++parts) {
      const char literal = any_case && is_letter(pattern_[at_]) ? char(pattern_[at_] | 0x20) : char(0);
      for (const std::string_view fold :
           {"ss", "st", "ff", "fi", "fl"})  // also one character: U+00DF, U+FB00 ...
        if (before == fold[0] && literal == fold[1]) refuse("a pair that one character folds to");
      empty &= repeated(any_case, depth);
      before = literal;
    }
    anchor_ &= parts == 1;
    return empty;
  }

  bool repeated(bool any_case, int depth) {
    const std::uint32_t begin = here();
    bool empty = atom(any_case, depth);
    for (int times = 0; !at_end(); ++times) {
      const auto bounds = quantifier();
      if (!bounds) break;
      if (std::exchange(anchor_, false)) refuse("repeating what takes no character");
      if (times > 1) refuse("a repetition of a repetition of a repetition");
      const auto [low, high, possessive] = *bounds;
      if (here() == begin + 1 && out_.program_[begin].op == Op::one) {
        Regex::Instruction& only = out_.program_[begin];
        only = {.op = Op::repeat, .possessive = possessive, .set = only.set, .low = low, .high = high};
      } else {
        if (empty && high > 1) refuse("repeating what may be empty");
        repeat_group(begin, low, high);
        if (possessive) {
          insert(begin, {.op = Op::atomic});
          emit({.op = Op::accept});
          out_.program_[begin].target = here();
        }
      }
      empty |= low == 0;
    }
    return empty;
  }

  struct Bounds {
    std::uint32_t low, high;
    bool possessive;
  };
  std::optional<Bounds> quantifier() {
    Bounds bounds{0, unlimited, false};
    if (take("{")) {
      const bool no_low = take(",");
      if (!no_low) bounds.low = count();
      bounds.high =
          no_low || take(",") ? (!at_end() && pattern_[at_] == '}' ? unlimited : count()) : bounds.low;
      if (no_low && bounds.high == unlimited) refuse("'{,}'");
      if (!take("}") || bounds.high < bounds.low || bounds.high == 0) refuse("this repetition");
      if (!at_end() && pattern_[at_] == '?') refuse("a reluctant repetition");
      return bounds;  // a plus after it repeats once more: Oniguruma, not PCRE
    }
    if (take("?"))
      bounds.high = 1;
    else if (take("+"))
      bounds.low = 1;
    else if (!take("*"))
      return std::nullopt;
    if (!at_end() && pattern_[at_] == '?') refuse("a reluctant repetition");
    bounds.possessive = take("+");
    return bounds;
  }
  std::uint32_t count() {
    std::uint32_t value = 0;
    const std::size_t begin = at_;
    while (!at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9' && value <= 1000)
      value = value * 10 + std::uint32_t(pattern_[at_++] - '0');
    if (at_ == begin || value > 1000) refuse("this number of repetitions");
    return value;
  }

  /// The instructions from `begin` on become `low` copies, then as many more as fit up to `high`.
  void repeat_group(std::uint32_t begin, std::uint32_t low, std::uint32_t high) {
    const std::vector<Regex::Instruction> body(out_.program_.begin() + begin, out_.program_.end());
    out_.program_.resize(begin);
    const auto copy = [&] {
      const std::uint32_t moved = here() - begin;
      for (Regex::Instruction i : body) {
        if (has_target(i.op)) i.target += moved;
        emit(i);
      }
    };
    for (std::uint32_t i = 0; i < low; ++i) copy();
    if (high == unlimited) {
      const std::uint32_t loop = emit({.op = Op::split});
      copy();
      emit({.op = Op::jump, .target = loop});
      out_.program_[loop].target = here();
      return;
    }
    std::vector<std::uint32_t> splits;
    for (std::uint32_t i = low; i < high; ++i) {
      splits.push_back(emit({.op = Op::split}));
      copy();
    }
    for (const std::uint32_t split : splits) out_.program_[split].target = here();
  }

  static bool has_target(Op op) {
    return op == Op::split || op == Op::jump || op == Op::look || op == Op::atomic;
  }
  void insert(std::uint32_t at, Regex::Instruction i) {
    emit(i);
    auto& program = out_.program_;
    std::rotate(program.begin() + at, program.end() - 1, program.end());
    for (std::uint32_t k = at + 1; k < here(); ++k)
      if (has_target(program[k].op)) ++program[k].target;
  }

  /// Returns whether it can match nothing.
  bool atom(bool any_case, int depth) {
    if (take("(")) {
      const std::uint32_t begin = here();
      const bool ahead = take("?="), not_ahead = !ahead && take("?!");
      const bool folded = !ahead && !not_ahead && take("?i:");
      const bool group = !ahead && !not_ahead && !folded && take("?:");
      const bool plain = ahead || not_ahead || folded || group;
      if (!plain && !at_end() && pattern_[at_] == '?') refuse("this kind of group");
      const bool empty = alternatives(any_case || folded, depth + 1);
      if (!take(")")) refuse("'(' without ')'");
      anchor_ = ahead || not_ahead || (anchor_ && group);
      if (!ahead && !not_ahead) return empty;
      insert(begin, {.op = Op::look, .negated = not_ahead});
      emit({.op = Op::accept});
      out_.program_[begin].target = here();
      return true;
    }
    if (take("$")) {
      emit({.op = Op::line_end});
      return anchor_ = true;
    }
    anchor_ = false;
    emit({.op = Op::one, .set = add(set(any_case))});
    return false;
  }

  Regex& out_;
  bool anchor_ = false;  // what was read last is a lookahead or $, or has one as an alternative
};

Regex::Regex(std::string_view pattern) { RegexParser(pattern, *this); }

}  // namespace mxtape
