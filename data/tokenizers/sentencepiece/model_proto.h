#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// What a SentencePiece model says of encoding and decoding.
struct SentencePieceProto {
  enum class PieceType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, byte = 6 };
  enum class ModelType : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;
  ModelType type = ModelType::unigram;
  bool byte_fallback = false;
  std::string unknown_surface = " \u2047 ";  ///< what an unknown token is decoded to
  std::string charsmap;                      ///< normalizer_spec.precompiled_charsmap; empty: identity
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

/// Reads the protocol buffer, field by field, with every length checked. Throws Error(data) for what is no
/// such message and for what is not understood: other types of model, unused pieces, white space at the end
/// of words, a denormalizer, a piece that is empty, twice there, no UTF-8 or longer than 1024 bytes, a score
/// that is not finite.
/// Source: sentencepiece_model.proto of google/sentencepiece.
SentencePieceProto read_sentencepiece_proto(std::string_view bytes);

}  // namespace mxtape
