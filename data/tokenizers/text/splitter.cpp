#include "data/tokenizers/text/splitter.h"

#include <algorithm>

#include "core/error.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using Kind = SplitStep::Kind;
using Behaviour = SplitStep::Behaviour;

struct Range {
  std::size_t begin, end;
  bool match;
};

/// Cuts the text at the ends of the ranges and joins delimiters as `behaviour` says. A match without a
/// character cuts, too.
std::vector<std::string_view> joined(std::string_view text, const std::vector<Range>& ranges,
                                     Behaviour behaviour) {
  std::vector<Range> kept;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Range& r = ranges[i];
    if (behaviour == Behaviour::removed && r.match) continue;
    const bool join_previous =
        i > 0 && !kept.empty() &&
        ((behaviour == Behaviour::with_previous && r.match && !ranges[i - 1].match) ||
         (behaviour == Behaviour::with_next && !r.match && ranges[i - 1].match && kept.back().match) ||
         (behaviour == Behaviour::contiguous && r.match == ranges[i - 1].match));
    if (join_previous)
      kept.back() = {kept.back().begin, r.end, false};
    else
      kept.push_back(r);
  }
  std::vector<std::string_view> pieces;
  for (const Range& r : kept)
    if (r.begin < r.end) pieces.push_back(text.substr(r.begin, r.end - r.begin));
  return pieces;
}

/// Ranges of digits, and of what is between them.
std::vector<Range> digit_ranges(std::string_view text, bool one_by_one) {
  std::vector<Range> ranges;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = known_character_at(text.data() + at);
    const bool digit = CharacterTable::get().classify(c.value) == number;
    if (ranges.empty() || ranges.back().match != digit || (digit && one_by_one))
      ranges.push_back({at, at, digit});
    ranges.back().end = at += c.length;
  }
  return ranges;
}

}  // namespace

Splitter::Splitter(std::vector<SplitStep> steps) {
  for (SplitStep& rule : steps) {
    Step& step = steps_.emplace_back(Step{.rule = std::move(rule)});
    if (step.rule.kind == Kind::byte_level && step.rule.cuts)
      step.scanner = known_pattern_named("gpt2")->scanner;
    if (step.rule.kind != Kind::pattern) continue;
    if (const KnownPattern* const known = known_pattern(step.rule.text))
      step.scanner = known->scanner;
    else
      step.regex = std::make_unique<Regex>(step.rule.text);
  }
  // A byte-level step that neither cuts nor adds a blank only says how symbols are spelled.
  if (!steps_.empty() && steps_.back().rule.kind == Kind::byte_level && !steps_.back().rule.cuts &&
      steps_.back().rule.prepend == SplitStep::Prepend::never)
    steps_.pop_back();
  const bool alone = steps_.size() == 1 && steps_[0].scanner && !steps_[0].rule.invert &&
                     steps_[0].rule.behaviour == Behaviour::isolated &&
                     steps_[0].rule.prepend == SplitStep::Prepend::never;
  if (alone) scanner_ = steps_[0].scanner;
}

Splitter::Pieces Splitter::matches_of(const Step& step, std::string_view text, Regex::Budget& budget) const {
  std::vector<Range> ranges;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = Regex::none;
    if (step.scanner) {
      end = step.scanner(text, at);
    } else if (step.regex) {
      end = step.regex->match(text, at, budget);
    } else if (text.substr(at).starts_with(step.rule.text)) {
      end = at + step.rule.text.size();
    }
    if (end == Regex::none || (end == at && at == done)) {  // Oniguruma: no empty match behind a match
      at += known_character_at(text.data() + at).length;
      continue;
    }
    if (done < at) ranges.push_back({done, at, step.rule.invert});
    ranges.push_back({at, end, !step.rule.invert});
    done = at = end;
  }
  if (done < text.size()) ranges.push_back({done, text.size(), step.rule.invert});
  return joined(text, ranges, step.rule.behaviour);
}

Splitter::Pieces Splitter::pieces_of(const Step& step, std::string_view text, bool at_start,
                                     std::string& changed, Regex::Budget& budget) const {
  const SplitStep& rule = step.rule;
  if (rule.kind == Kind::pattern || rule.kind == Kind::literal) return matches_of(step, text, budget);
  if (rule.kind == Kind::digits)
    return joined(text, digit_ranges(text, rule.one_by_one), Behaviour::isolated);
  const bool metaspace = rule.kind == Kind::metaspace;
  const std::string mark = metaspace ? rule.text : " ";
  if (metaspace) {
    changed = text;
    replace_all(changed, " ", mark);
    text = changed;
  }
  const bool wanted =
      rule.prepend == SplitStep::Prepend::always || (rule.prepend == SplitStep::Prepend::first && at_start);
  if (wanted && !text.starts_with(mark)) text = changed = mark + std::string(text);
  if (!rule.cuts) return {text};
  if (!metaspace) return matches_of(step, text, budget);
  Pieces pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(mark, begin + 1), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

}  // namespace mxtape
