#include "data/tokenizers/sentencepiece/unigram.h"

#include <algorithm>
#include <limits>

#include "data/tokenizers/text/utf8.h"

namespace mxtape {

Unigram::Unigram(const SentencePieceProto& proto) {
  using Type = SentencePieceProto::PieceType;
  float lowest = std::numeric_limits<float>::max();
  for (const auto& piece : proto.pieces)
    if (piece.type == Type::normal) lowest = std::min(lowest, piece.score);
  unknown_score_ = lowest - 10;
  for (std::size_t id = 0; id < proto.pieces.size(); ++id) {
    const auto& piece = proto.pieces[id];
    const bool own = piece.type == Type::user_defined;
    if (own || piece.type == Type::normal) trie_.insert(piece.text, std::int32_t(id));
    scores_.push_back(own ? float(0.1 * double(piece.text.size() - 1)) : piece.score);
  }
}

std::vector<Unigram::Piece> Unigram::best(std::string_view text) const {
  constexpr auto none = std::size_t(-1);
  struct End {
    float score = 0;
    std::int32_t id = -1;
    std::size_t begin = none;
  };
  std::vector<End> ends(text.size() + 1);
  const auto offer = [&](std::size_t end, float score, std::int32_t id, std::size_t begin) {
    End& known = ends[end];
    if (known.begin == none || score > known.score) known = {score, id, begin};
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const float here = ends[begin].score;
    const std::size_t character = known_character_at(text.data() + begin).length;
    bool has_single = false;
    std::int32_t node = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      node = trie_.child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) break;
      const std::int32_t id = trie_.id(node);
      if (id < 0) continue;
      offer(i + 1, scores_[std::size_t(id)] + here, id, begin);
      has_single |= i + 1 - begin == character;
    }
    if (!has_single) offer(begin + character, unknown_score_ + here, -1, begin);
    begin += character;
  }
  std::vector<Piece> pieces;
  for (std::size_t end = text.size(); end > 0; end = ends[end].begin)
    pieces.push_back({text.substr(ends[end].begin, end - ends[end].begin), ends[end].id});
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace mxtape
