#include "data/tokenizers/bpe/trainer.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/parallel.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/parts.h"
#include "data/tokenizers/text/rules.h"
#include "data/tokenizers/text/scanners.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using Symbol = std::uint32_t;
using PairKey = std::uint64_t;  // left << 32 | right: ordered as (left, right)

PairKey key_of(Symbol left, Symbol right) { return PairKey(left) << 32 | right; }

struct Word {
  std::vector<Symbol> symbols;
  std::int64_t count;
};

struct Candidate {
  std::int64_t count;
  PairKey pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(std::vector<Word> words, const BpeTraining& options) : words_(std::move(words)), options_(options) {
    pieces_.resize(256);
    for (int b = 0; b < 256; ++b) pieces_[std::size_t(gpt2_order(static_cast<unsigned char>(b)))] = char(b);
    for (std::size_t i = 0; i < 256; ++i) ids_.emplace(pieces_[i], Symbol(i));
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const auto& symbols = words_[w].symbols;
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
        change(key_of(symbols[i], symbols[i + 1]), words_[w].count, w);
    }
    push_changed();
  }

  void run(std::size_t vocabulary, const std::function<void(std::int64_t)>& progress, TrainedBpe& out) {
    while (pieces_.size() < vocabulary && !heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      const auto now = pairs_.find(best.pair);
      if (now == pairs_.end() || now->second.count != best.count) continue;  // a newer one is in the heap
      if (best.count < std::max<std::int64_t>(options_.least_count, 1)) break;
      merge(best.pair, out);
      if (progress) progress(std::int64_t(pieces_.size()));
    }
  }

 private:
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words{};  // where it stood at some time, perhaps twice
  };

  bool allowed(PairKey pair) const {
    const std::size_t left = pieces_[pair >> 32].size(), right = pieces_[std::uint32_t(pair)].size();
    return left + right == 2 || std::int64_t(left + right) <= options_.longest;
  }
  void change(PairKey pair, std::int64_t by, std::uint32_t word) {
    if (!allowed(pair)) return;
    Pair& p = pairs_[pair];
    p.count += by;
    changed_.push_back(pair);
    if (by > 0 && (p.words.empty() || p.words.back() != word)) p.words.push_back(word);
  }
  void push_changed() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const PairKey pair : changed_)
      if (const std::int64_t count = pairs_[pair].count; count > 0) heap_.push({count, pair});
    changed_.clear();
  }

  void merge(PairKey pair, TrainedBpe& out) {
    const Symbol left = Symbol(pair >> 32), right = Symbol(pair);
    const std::string whole = pieces_[left] + pieces_[right];
    const auto [known, fresh] = ids_.emplace(whole, Symbol(pieces_.size()));
    if (fresh) pieces_.push_back(whole);
    const auto& specials = options_.specials;
    const bool taken = fresh && !specials.empty() && std::ranges::count(specials, to_stand_ins(whole)) > 0;
    require(!taken, ExitCode::usage, "--special {}: the training makes this token; want another text",
            shown_text(whole));
    // A pair comes again where one of its halves has been made anew in another way: it has its rank already.
    if (merged_.emplace(pair, true).second) out.merges.emplace_back(pieces_[left], pieces_[right]);
    const Symbol made = known->second;
    std::vector<std::uint32_t> where = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    for (const std::uint32_t w : where) rewrite(w, left, right, made);
    push_changed();
  }

  /// Every left, right becomes `made`; counts of the neighbours follow.
  void rewrite(std::uint32_t w, Symbol left, Symbol right, Symbol made) {
    auto& symbols = words_[w].symbols;
    const std::int64_t count = words_[w].count;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i] != left || i + 1 == symbols.size() || symbols[i + 1] != right) {
        symbols[kept++] = symbols[i];
        continue;
      }
      const auto less = [&](Symbol a, Symbol b) {
        if (a != left || b != right) change(key_of(a, b), -count, w);  // that one is gone as a whole
      };
      if (kept > 0) {
        less(symbols[kept - 1], left);
        change(key_of(symbols[kept - 1], made), count, w);
      }
      if (i + 2 < symbols.size()) {
        less(right, symbols[i + 2]);
        change(key_of(made, symbols[i + 2]), count, w);
      }
      symbols[kept++] = made;
      ++i;
    }
    symbols.resize(kept);
  }

  std::vector<Word> words_;
  const BpeTraining& options_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, Symbol> ids_;
  std::unordered_map<PairKey, Pair> pairs_;
  std::unordered_map<PairKey, bool> merged_;
  std::vector<PairKey> changed_;
  std::priority_queue<Candidate> heap_;
};

bool may_cut(std::string_view text, std::size_t at) {
  const char before = char(text[at - 1] | 0x20);
  return before >= 'a' && before <= 'z' && (text[at] == ' ' || text[at] == '\n');
}

using Counts = std::unordered_map<std::string_view, std::int64_t>;

/// How often each word occurs in the texts, which are UTF-8. On all threads.
Counts count_words(std::span<const std::string_view> texts, Scanner scanner) {
  std::vector<TextPart> parts;
  for (const auto text : texts) append_parts(parts, {.text = text}, may_cut);
  const std::int64_t shares = std::min<std::int64_t>(threads(), std::int64_t(parts.size()));
  std::vector<Counts> counts(std::size_t(std::max<std::int64_t>(shares, 1)));
  // Each share takes every shares-th part: sums do not depend on who counted what.
  parallel_for(shares, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s)
      for (std::size_t i = std::size_t(s); i < parts.size(); i += std::size_t(shares)) {
        const std::string_view text = parts[i].text;
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t next = scanner(text, at);
          ++counts[std::size_t(s)][text.substr(at, next - at)];
          at = next;
        }
      }
  });
  for (std::size_t s = 1; s < counts.size(); ++s)
    for (const auto& [word, count] : counts[s]) counts[0][word] += count;
  return std::move(counts[0]);
}

}  // namespace

void require_valid(const BpeTraining& options) {
  require(known_pattern_named(options.style) != nullptr, ExitCode::usage,
          "--style {}: want gpt2, llama3 or qwen2", options.style);
  const auto specials = std::int64_t(options.specials.size());
  require(options.vocabulary >= 256 + specials, ExitCode::usage,
          "--vocabulary {}: want at least {}, for 256 bytes and {} special tokens", options.vocabulary,
          256 + specials, specials);
  std::set<std::string> known;
  for (int b = 0; b < 256; ++b) known.insert(utf8(stand_in(static_cast<unsigned char>(b))));
  for (const std::string& special : options.specials) {
    const bool is_text =
        !special.empty() && special.size() <= longest_rule_text && first_bad_byte(special) == special.size();
    require(is_text, ExitCode::usage, "--special {}: want 1 to {} bytes of UTF-8", shown_text(special),
            longest_rule_text);
    require(known.insert(special).second, ExitCode::usage, "--special {}: want a text that is no token yet",
            shown_text(special));
  }
}

TrainedBpe train_bpe(std::span<const std::string_view> texts, const BpeTraining& options,
                     const std::function<void(std::int64_t)>& progress) {
  require_valid(options);
  for (const auto text : texts) require_utf8(text);
  std::vector<std::string> composed;
  std::vector<std::string_view> read(texts.begin(), texts.end());
  if (options.style == "qwen2") {  // whose file says NFC
    for (const auto text : texts) composed.push_back(to_nfc(text));
    read.assign(composed.begin(), composed.end());
  }
  TrainedBpe trained;
  std::vector<Word> words;
  for (const auto& [word, count] : count_words(read, known_pattern_named(options.style)->scanner)) {
    trained.words += count;
    Word& entry = words.emplace_back(Word{{}, count});
    for (const char b : word) entry.symbols.push_back(Symbol(gpt2_order(static_cast<unsigned char>(b))));
  }
  trained.distinct_words = std::int64_t(words.size());
  Trainer(std::move(words), options)
      .run(std::size_t(options.vocabulary) - options.specials.size(), progress, trained);
  return trained;
}

}  // namespace mxtape
