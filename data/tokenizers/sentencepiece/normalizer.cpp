#include "data/tokenizers/sentencepiece/normalizer.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "data/tokenizers/bpe/bpe_model.h"
#include "data/tokenizers/text/rules.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

// A unit of the double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7fffffff; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000ff; }
std::size_t offset(std::uint32_t unit) { return std::size_t(unit >> 10) << ((unit & 1u << 9) >> 6); }

/// The callers go from character to character without looking: all that a rule leaves must be UTF-8.
void check_rule(std::string_view text, std::size_t length, std::string_view replacement) {
  const auto inside = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };
  const auto refuse = [&](const std::string& what) {
    fail(ExitCode::data, "normalizer_spec.precompiled_charsmap: its rule for {} {}",
         shown_text(text.substr(0, length)), what);
  };
  if (length < text.size() && inside(text[length])) refuse("ends inside a character");
  if (!replacement.empty() && inside(replacement[0])) refuse("writes a text that begins inside a character");
  if (replacement.size() > longest_rule_text)
    refuse(fmt::format("writes {} bytes; want at most {}", replacement.size(), longest_rule_text));
}

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceProto& proto, const PieceTrie& kept)
    : dummy_prefix_(proto.add_dummy_prefix), join_blanks_(proto.remove_extra_whitespaces) {
  changed_lead_[static_cast<unsigned char>(' ')] = true;
  if (const std::string& map = proto.charsmap; !map.empty()) {
    std::uint32_t size = 0;
    if (map.size() > sizeof size) std::memcpy(&size, map.data(), sizeof size);
    require(size >= 4 && size % 4 == 0 && size <= map.size() - sizeof size, ExitCode::data,
            "normalizer_spec.precompiled_charsmap: a trie of {} bytes in {}", size, map.size());
    units_.resize(size / 4);
    std::memcpy(units_.data(), map.data() + sizeof size, size);
    replacements_ = map.substr(sizeof size + size);
    require(replacements_.ends_with('\0') && first_bad_byte(replacements_) == replacements_.size(),
            ExitCode::data,
            "normalizer_spec.precompiled_charsmap: its texts are no UTF-8, or do not end with a zero byte");
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (kept.child(0, byte) >= 0) changed_lead_[byte] = true;
    if (units_.empty()) continue;
    const std::size_t node = offset(units_[0]) ^ std::size_t(byte);
    if (node < units_.size() && label(units_[node]) == std::uint32_t(byte)) changed_lead_[byte] = true;
  }
}

SentencePieceNormalizer::Prefix SentencePieceNormalizer::prefix(std::string_view text,
                                                                const PieceTrie& kept) const {
  if (const std::size_t length = kept.longest(text)) return {text.substr(0, length), length};
  std::size_t longest = 0;
  std::string_view replacement;
  if (!units_.empty()) {
    std::size_t node = offset(units_[0]);
    // A broken trie may run in circles.
    for (std::size_t i = 0; i < std::min(text.size(), longest_rule_text); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      node ^= byte;
      if (node >= units_.size() || label(units_[node]) != byte) break;
      const bool leaf = has_leaf(units_[node]);
      node ^= offset(units_[node]);
      if (!leaf) continue;
      const std::size_t at = node < units_.size() ? value(units_[node]) : replacements_.size();
      require(at < replacements_.size(), ExitCode::data,
              "normalizer_spec.precompiled_charsmap: a rule points outside of its texts");
      replacement = std::string_view(replacements_.data() + at);  // up to its zero byte, checked to be there
      longest = i + 1;
    }
  }
  if (longest > 0) check_rule(text, longest, replacement);
  if (longest == 0) longest = known_character_at(text.data()).length, replacement = text.substr(0, longest);
  return {replacement, longest};
}

std::string SentencePieceNormalizer::normalized(std::string_view text, const PieceTrie& kept) const {
  while (join_blanks_ && !text.empty()) {
    const Prefix p = prefix(text, kept);
    if (p.text != " ") break;
    text.remove_prefix(p.length);
  }
  std::string result;
  if (text.empty()) return result;
  const std::size_t most = longest_rewritten(text.size());
  result.reserve(text.size() + text.size() / 4);
  if (dummy_prefix_) result += blank_mark;
  bool after_blank = join_blanks_;
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && !changed_lead_[static_cast<unsigned char>(text[plain])])
      plain += known_character_at(text.data() + plain).length;
    if (plain > 0) {
      result += text.substr(0, plain);
      text.remove_prefix(plain);
      after_blank = false;
      if (text.empty()) break;
    }
    auto [part, length] = prefix(text, kept);
    text.remove_prefix(length);
    while (after_blank && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    for (const char c : part)
      if (c == ' ')
        result += blank_mark;
      else
        result += c;
    after_blank = join_blanks_ && part.ends_with(' ');
    require(result.size() <= most, ExitCode::data,
            "normalizer_spec.precompiled_charsmap: makes more than {} bytes of the text", most);
  }
  while (join_blanks_ && result.ends_with(blank_mark)) result.resize(result.size() - blank_mark.size());
  return result;
}

}  // namespace mxtape
