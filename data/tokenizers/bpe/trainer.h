#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mxtape {

struct BpeTraining {
  std::int64_t vocabulary = 8192;  ///< tokens in all: 256 bytes, merges, specials
  std::int64_t least_count = 2;    ///< a pair that is rarer is not merged
  std::int64_t longest = std::numeric_limits<std::int64_t>::max();  ///< bytes of a token of more than two
  std::string style = "gpt2";  ///< how texts are cut into words: a known_pattern_named()
  std::vector<std::string> specials{};
};

struct TrainedBpe {
  /// Byte strings by rank. Ids: the bytes in GPT-2's order, then each new whole, then the specials.
  std::vector<std::pair<std::string, std::string>> merges;
  std::int64_t words = 0, distinct_words = 0;
};

/// Throws Error(usage) for options that do not fit, among them special tokens that are empty, no UTF-8,
/// longer than 1024 bytes, there twice or one of the 256 bytes' tokens.
void require_valid(const BpeTraining&);

/// Byte-level BPE: merges the pair of tokens with the largest count in all words until the vocabulary is
/// full; the smaller (left id, right id) among equal counts. Any number of threads gives the same merges.
/// Memory follows the distinct words; `qwen2` also makes a copy of the texts in NFC. `progress` is told
/// how many tokens there are. Throws Error(data) at the first byte that is not UTF-8, Error(usage) as
/// require_valid, and as soon as a merge makes the text of a special token. Source: Sennrich, Haddow & Birch
/// 2016; the rule for ties is that of Hugging Face's tokenizers.
TrainedBpe train_bpe(std::span<const std::string_view> texts, const BpeTraining&,
                     const std::function<void(std::int64_t)>& progress = {});

/// The files of a trained tokenizer, as Hugging Face's libraries read them.
struct BpeFiles {
  std::string tokenizer_json, vocab_json, merges_txt;
};
BpeFiles files_of(const TrainedBpe&, const BpeTraining&);

}  // namespace mxtape
