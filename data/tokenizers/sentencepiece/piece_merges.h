#pragma once
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/bpe/merges.h"
#include "data/tokenizers/bpe/piece_trie.h"
#include "data/tokenizers/sentencepiece/model_proto.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {

/// SentencePiece's BPE: any two neighbours whose texts together are a piece may be merged, the best score
/// first, leftmost among equals. All such pairs are found once, so that a word takes the loops of Merges.
class PieceMerges {
 public:
  explicit PieceMerges(const SentencePieceProto&);

  struct Piece {
    std::string_view text;
    std::int32_t id;  // -1: characters that are no piece
  };
  /// Calls piece(Piece) for the pieces of a word in order. `kept` are the user-defined symbols, which are
  /// never merged.
  template <class Emit>
  void encode(std::string_view word, const PieceTrie& kept, const Emit& piece) const {
    std::vector<std::int32_t> symbols;
    while (!word.empty()) {
      std::int32_t own = -1;
      std::size_t length = kept.longest(word, &own);
      const std::size_t end = length ? 0 : plain_end(word, kept, symbols);
      symbols.resize(merges_.apply(symbols.data(), symbols.size()));
      for (const std::int32_t symbol : symbols) {
        const std::string_view text = word.substr(0, lengths_[std::size_t(symbol)]);
        piece(Piece{text, symbol < pieces_ ? symbol : -1});
        word.remove_prefix(text.size());
      }
      symbols.clear();
      if (length == 0 && end == 0) length = known_character_at(word.data()).length;
      if (length == 0) continue;
      piece(Piece{word.substr(0, length), own});
      word.remove_prefix(length);
    }
  }

 private:
  /// The symbols of the characters up to the next user-defined symbol or unknown character, and where that is
  /// (0: at once).
  std::size_t plain_end(std::string_view word, const PieceTrie& kept,
                        std::vector<std::int32_t>& symbols) const;

  Merges merges_;
  std::int32_t pieces_;  // symbols from here on are characters that are no piece
  std::unordered_map<char32_t, std::int32_t> symbols_;  // of characters
  std::vector<std::uint16_t> lengths_;                  // in bytes, by symbol
};

}  // namespace mxtape
