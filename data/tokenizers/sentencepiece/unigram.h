#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/bpe/piece_trie.h"
#include "data/tokenizers/sentencepiece/model_proto.h"

namespace mxtape {

/// Kudo 2018's unigram language model: the cut of a text whose pieces' scores have the largest sum.
class Unigram {
 public:
  explicit Unigram(const SentencePieceProto&);
  struct Piece {
    std::string_view text;
    std::int32_t id;  // -1: a character that is no piece
  };
  /// Viterbi's algorithm in f32, from left to right; a later way must be strictly better. A character that is
  /// no piece has the lowest score of normal pieces less 10, a user-defined piece 0.1 (bytes - 1).
  std::vector<Piece> best(std::string_view text) const;

 private:
  PieceTrie trie_;
  std::vector<float> scores_;  // by id
  float unknown_score_;
};

}  // namespace mxtape
