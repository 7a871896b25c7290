#include "data/tokenizers/text/regex.h"

#include <algorithm>

#include "core/error.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {

void CharacterSet::finish() {
  for (char32_t c = 0; c < 128; ++c) ascii[c] = look_up(c);
}

bool CharacterSet::look_up(char32_t c) const {
  const CategorySet category = 1u << unsigned(CharacterTable::get().category(c));
  const bool found = std::any_of(items.begin(), items.end(), [&](const Item& item) {
    const bool in = (c >= item.first && c <= item.last) || (category & item.categories) != 0 ||
                    (item.spaces && is_white_space(c));
    return in != item.negated;
  });
  return found != negated;
}

/// One call of match(): the text, and the ways that are still to be tried.
struct Regex::Run {
  struct Way {
    std::size_t pc, at, least;  // tried at `at`, then one character earlier, as long as that is >= least
  };
  static constexpr std::size_t most_ways = 1 << 24;  // 384 MiB
  std::string_view text;
  Budget& budget;
  std::vector<Way> ways{};

  void push(Way way) {
    if (ways.size() == most_ways) [[unlikely]]
      refuse("keeps more ways open", std::int64_t(most_ways), way.at);
    ways.push_back(way);
  }
  [[noreturn]] void refuse(const char* what, std::int64_t most, std::size_t at) const {
    fail(ExitCode::data, "the pattern of its words {} than {}, at {}", what, most,
         shown_text(text.substr(at, 40)));
  }
};

std::size_t Regex::repeat(const Instruction& i, Run& run, std::size_t at, std::size_t& least) const {
  const std::string_view text = run.text;
  const CharacterSet& set = sets_[i.set];
  std::uint32_t count = 0;
  least = i.low == 0 ? at : none;
  while (count < i.high && at < text.size()) {
    const Character c = known_character_at(text.data() + at);
    if (!set.has(c.value)) break;
    at += c.length;
    if (++count == i.low) least = at;
  }
  run.budget.left -= count;
  return count < i.low ? none : at;
}

std::size_t Regex::run(std::size_t pc, std::size_t at, Run& run) const {
  const std::size_t bottom = run.ways.size();
  while (true) {
    if (--run.budget.left < 0) [[unlikely]]
      run.refuse("takes more steps", run.budget.steps, at);
    const Instruction& i = program_[pc];
    bool fits = true;
    switch (i.op) {
      case Op::one: {
        const Character c = at < run.text.size() ? known_character_at(run.text.data() + at) : Character{};
        fits = c.length != 0 && sets_[i.set].has(c.value);
        at += c.length;
        ++pc;
        break;
      }
      case Op::repeat: {
        std::size_t least;
        const std::size_t end = repeat(i, run, at, least);
        fits = end != none;
        ++pc;
        if (fits && !i.possessive && end > least) run.push({pc, end, least});
        if (fits) at = end;
        break;
      }
      case Op::split:
        run.push({i.target, at, none});
        ++pc;
        break;
      case Op::jump:
        pc = i.target;
        break;
      case Op::look:
        fits = (this->run(pc + 1, at, run) != none) != i.negated;
        pc = i.target;
        break;
      case Op::atomic: {
        const std::size_t end = this->run(pc + 1, at, run);
        fits = end != none;
        at = end;
        pc = i.target;
        break;
      }
      case Op::line_end:
        fits = at == run.text.size() || run.text[at] == '\n';
        ++pc;
        break;
      case Op::accept:
        run.ways.resize(bottom);
        return at;
    }
    if (fits) continue;
    if (run.ways.size() == bottom) return none;
    Run::Way& way = run.ways.back();
    pc = way.pc;
    at = way.at;
    if (way.least == none) {
      run.ways.pop_back();
      continue;
    }
    at = way.at = last_character(run.text.substr(0, way.at));
    if (at == way.least) run.ways.pop_back();
  }
}

std::size_t Regex::match(std::string_view text, std::size_t at, Budget& budget) const {
  Run state{.text = text, .budget = budget};
  return run(0, at, state);
}

}  // namespace mxtape
