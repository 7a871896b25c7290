#include "data/tokenizers/bpe/bpe_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/text/rules.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using nlohmann::json;

/// What <0x41> stands for, or none.
std::optional<char> fallback_byte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const std::string_view digits = "0123456789ABCDEF";
  const auto high = digits.find(piece[3]), low = digits.find(piece[4]);
  if (high == digits.npos || low == digits.npos) return std::nullopt;
  return char(high * 16 + low);
}

/// What each token stands for, but for what depends on its place.
std::vector<std::string> bytes_of(const BpeRules& rules) {
  std::vector<std::string> bytes = rules.pieces;
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    std::string& piece = bytes[id];
    if (rules.byte_level) {
      if (auto found = from_stand_ins(piece)) piece = std::move(*found);
      continue;
    }
    const std::size_t most = longest_rewritten(piece.size());
    for (const auto& [from, to] : rules.decoder.replace)
      require(replace_all(piece, from, to, most), ExitCode::data,
              "tokenizer.json.decoder: makes more than {} bytes of token {}", most, id);
    if (rules.decoder.byte_fallback)
      if (const auto byte = fallback_byte(piece)) piece = std::string(1, *byte);
  }
  return bytes;
}

}  // namespace

BpeTokenizer::BpeTokenizer(json file) : BpeTokenizer(read_tokenizer_json(file), "") {
  file_ = canonical_tokenizer_json(std::move(file)).dump();
}

BpeTokenizer::BpeTokenizer(const BpeRules& rules, std::string file)
    : file_(std::move(file)),
      normalizer_(rules.normalizer),
      splitter_(rules.splitter),
      model_(rules),
      added_(rules.added),
      decoder_(rules.decoder),
      bytes_(bytes_of(rules)),
      before_(rules.before),
      byte_level_(rules.byte_level) {
  // Normalizers that look at one character, and leave a blank or a mark where a blank was.
  const bool local = std::all_of(normalizer_.begin(), normalizer_.end(), [](const NormalizerStep& step) {
    return step.kind != NormalizerStep::Kind::replace || (step.text == " " && step.with == blank_mark);
  });
  cuts_anywhere_ =
      local && (splitter_.cuts_at_blanks() || (splitter_.keeps_whole() && model_.may_cut_before_blanks()));
}

std::string BpeTokenizer::text() const {
  return fmt::format("{} tokens, {}", size(), byte_level_ ? "byte-level BPE" : "BPE of characters");
}
std::string BpeTokenizer::to_json() const { return R"({"file":)" + file_ + R"(,"kind":"tokenizer.json"})"; }
std::string BpeTokenizer::shown(std::int32_t token) const { return shown_text(bytes_[std::size_t(token)]); }

/// Between an ASCII letter or digit and a blank or line end after it, which no word and no mark spans.
bool BpeTokenizer::may_cut(std::string_view text, std::size_t at) const {
  const char before = char(text[at - 1] | 0x20), here = text[at];
  const bool ends_word = (before >= 'a' && before <= 'z') || (text[at - 1] >= '0' && text[at - 1] <= '9');
  const bool blank = here == ' ' || (here == '\n' && splitter_.cuts_at_blanks());
  return cuts_anywhere_ && ends_word && blank;
}

std::string BpeTokenizer::normalized(const TextPart& part) const {
  std::string text(part.text);
  const std::size_t most = longest_rewritten(text.size());
  bool fits = true;
  for (const NormalizerStep& step : normalizer_) {
    if (step.kind == NormalizerStep::Kind::nfc)
      text = to_nfc(text);
    else if (step.kind == NormalizerStep::Kind::replace)
      fits = replace_all(text, step.text, step.with, most);
    else if (part.begins && !text.empty())
      text.insert(0, step.text);
    require(fits && text.size() <= most, ExitCode::data,
            "tokenizer.json.normalizer: makes more than {} bytes of {} bytes of text", most,
            part.text.size());
  }
  return text;
}

void BpeTokenizer::encode_part(const TextPart& part, WordCache& cache,
                               std::vector<std::int32_t>& tokens) const {
  std::string changed;
  if (!normalizer_.empty()) changed = normalized(part);
  const std::string_view text = normalizer_.empty() ? part.text : std::string_view(changed);
  const auto encode = [&](std::string_view word, std::vector<std::int32_t>& out) {
    model_.encode(word, out);
  };
  splitter_.for_each_word(text, part.at_start, [&](std::string_view word) {
    if (!model_.may_cut_before_blanks()) return cache.append(word, tokens, encode);
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t end = next_marked_word(word, at);
      cache.append(word.substr(at, end - at), tokens, encode);
      at = end;
    }
  });
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text, SpecialTokens specials) const {
  require_utf8(text);
  std::vector<TextPart> parts;
  added_.cut(
      text, specials,
      [&](std::string_view between, std::size_t offset) {
        append_parts(parts, {.text = between, .at_start = offset == 0},
                     [&](std::string_view whole, std::size_t at) { return may_cut(whole, at); });
      },
      [&](std::int32_t id) { parts.push_back({.token = id}); });
  return encode_parts(parts, [&](const TextPart& part, WordCache& cache, std::vector<std::int32_t>& tokens) {
    encode_part(part, cache, tokens);
  });
}

void BpeTokenizer::decode(std::int32_t token, DecodeState& state, std::string& text) const {
  std::string piece = bytes_[std::size_t(token)];
  if (!decoder_.metaspace.empty())  // which has a byte at least: nothing grows
    replace_all(piece, decoder_.metaspace, state.tokens == 0 && decoder_.drop_first ? "" : " ", piece.size());
  std::size_t strip = 0;
  while (state.at_start && state.stripped < decoder_.strip_start && strip < piece.size() &&
         piece[strip] == ' ')
    ++strip, ++state.stripped;
  text.append(piece, strip);
  state.at_start &= strip == piece.size();
  ++state.tokens;
}

}  // namespace mxtape
