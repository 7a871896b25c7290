#include "data/tokenizers/sentencepiece/piece_merges.h"

#include <map>

namespace mxtape {

PieceMerges::PieceMerges(const SentencePieceProto& proto) : pieces_(std::int32_t(proto.pieces.size())) {
  using Type = SentencePieceProto::PieceType;
  std::unordered_map<std::string_view, std::int32_t> ids;
  std::map<float, std::uint32_t, std::greater<>> ranks;  // equal scores share one
  for (std::int32_t id = 0; id < pieces_; ++id) {
    const auto& piece = proto.pieces[std::size_t(id)];
    lengths_.push_back(std::uint16_t(piece.text.size()));
    if (piece.type != Type::normal) continue;
    ids.emplace(piece.text, id);
    ranks.emplace(piece.score, 0);
  }
  std::uint32_t rank = 0;
  for (auto& entry : ranks) entry.second = rank++;
  for (const auto& [text, id] : ids)
    for (std::size_t at = 0; at < text.size();) {
      const Character c = known_character_at(text.data() + at);
      const std::string_view character = text.substr(at, c.length);
      at += c.length;
      const auto known = ids.find(character);
      if (!symbols_.emplace(c.value, known == ids.end() ? std::int32_t(lengths_.size()) : known->second)
               .second)
        continue;
      if (known == ids.end()) lengths_.push_back(std::uint16_t(c.length));
    }
  const auto symbol_of = [&](std::string_view text) {
    const auto known = ids.find(text);
    if (known != ids.end()) return known->second;
    const Character c = known_character_at(text.data());
    return c.length == text.size() ? symbols_.at(c.value) : -1;
  };
  for (const auto& [text, id] : ids)
    for (std::size_t at = known_character_at(text.data()).length; at < text.size();
         at += known_character_at(text.data() + at).length) {
      const std::int32_t left = symbol_of(text.substr(0, at)), right = symbol_of(text.substr(at));
      if (left >= 0 && right >= 0)
        merges_.insert(left, right, {ranks.at(proto.pieces[std::size_t(id)].score), id});
    }
}

std::size_t PieceMerges::plain_end(std::string_view word, const PieceTrie& kept,
                                   std::vector<std::int32_t>& symbols) const {
  std::size_t at = 0;
  while (at < word.size() && kept.longest(word.substr(at)) == 0) {
    const Character c = known_character_at(word.data() + at);
    const auto found = symbols_.find(c.value);
    if (found == symbols_.end()) break;
    symbols.push_back(found->second);
    at += c.length;
  }
  return at;
}

}  // namespace mxtape
