#include "data/tokenizers/bpe/bpe_model.h"

#include <algorithm>

#include "core/error.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {

bool marks_lead(std::string_view piece) {
  while (piece.starts_with(blank_mark)) piece.remove_prefix(blank_mark.size());
  return piece.find(blank_mark) == piece.npos;
}

std::size_t next_marked_word(std::string_view text, std::size_t at) {
  while (text.substr(at).starts_with(blank_mark)) at += blank_mark.size();
  return std::min(text.find(blank_mark, at), text.size());
}

BpeModel::BpeModel(const BpeRules& rules)
    : merges_(rules.merges.size()),
      byte_level_(rules.byte_level),
      byte_fallback_(rules.byte_fallback),
      fuse_unknown_(rules.fuse_unknown),
      unknown_(rules.unknown) {
  for (std::size_t rank = 0; rank < rules.merges.size(); ++rank) {
    const auto& [left, right, result] = rules.merges[rank];
    merges_.insert(left, right, {std::uint32_t(rank), result});
  }
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (std::size_t id = 0; id < rules.pieces.size(); ++id)
    if (rules.in_model[id]) ids.emplace(rules.pieces[id], std::int32_t(id));
  if (byte_level_ || byte_fallback_)
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<unsigned char>(b);
      const std::string piece = byte_level_ ? utf8(stand_in(byte)) : fmt::format("<0x{:02X}>", b);
      const auto found = ids.find(piece);
      require(found != ids.end(), ExitCode::data,
              "tokenizer.json.model.vocab: byte 0x{:02x} has no token {}; texts with it could not be encoded",
              b, shown_text(piece));
      of_byte_[byte] = found->second;
    }
  if (!byte_level_) {
    cut_before_blanks_ = ids.count(blank_mark) > 0;
    for (const auto& [piece, id] : ids) {
      const Character c = character_at(piece, 0);
      if (c.length == piece.size()) of_character_.emplace(c.value, id);
      cut_before_blanks_ &= marks_lead(piece);
    }
  }
  if (rules.ignore_merges)
    for (const auto& [piece, id] : ids) {
      auto word = byte_level_ ? from_stand_ins(piece) : std::string(piece);
      if (word) whole_.emplace(std::move(*word), id);
    }
  cut_before_blanks_ &= whole_.empty();
}

void BpeModel::add_characters(std::string_view word, std::vector<std::int32_t>& tokens) const {
  bool unknown_before = false;
  for (std::size_t at = 0; at < word.size();) {
    const Character c = known_character_at(word.data() + at);
    const auto found = of_character_.find(c.value);
    const bool known = found != of_character_.end();
    if (known) {
      tokens.push_back(found->second);
    } else if (byte_fallback_) {
      for (const char b : word.substr(at, c.length))
        tokens.push_back(of_byte_[static_cast<unsigned char>(b)]);
    } else if (unknown_ >= 0 && !(fuse_unknown_ && unknown_before)) {
      tokens.push_back(unknown_);
    }
    unknown_before = !known;
    at += c.length;
  }
}

void BpeModel::encode(std::string_view word, std::vector<std::int32_t>& tokens) const {
  if (!whole_.empty())
    if (const auto found = whole_.find(std::string(word)); found != whole_.end())
      return tokens.push_back(found->second);
  const std::size_t before = tokens.size();
  if (byte_level_) {
    tokens.resize(before + word.size());
    for (std::size_t i = 0; i < word.size(); ++i)
      tokens[before + i] = of_byte_[static_cast<unsigned char>(word[i])];
  } else {
    add_characters(word, tokens);
  }
  tokens.resize(before + merges_.apply(tokens.data() + before, tokens.size() - before));
}

}  // namespace mxtape
