#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/bpe/piece_trie.h"
#include "data/tokenizers/sentencepiece/model_proto.h"

namespace mxtape {

/// What a SentencePiece model does to a text before it cuts it: rules of its charsmap, white space joined and
/// trimmed, a blank in front, blanks as U+2581.
class SentencePieceNormalizer {
 public:
  /// `kept` are the user-defined symbols, which no rule changes. Throws Error(data) for a broken charsmap.
  SentencePieceNormalizer(const SentencePieceProto&, const PieceTrie& kept);
  /// Of a text that is UTF-8. Throws Error(data) where a rule of the charsmap cuts a character, or makes the
  /// text longer than rules.h allows: the rules are looked at as they are met.
  std::string normalized(std::string_view text, const PieceTrie& kept) const;

 private:
  struct Prefix {
    std::string_view text;
    std::size_t length;  // of what it stands for
  };
  Prefix prefix(std::string_view text, const PieceTrie& kept) const;

  // A double array of units and the texts that its leaves point to. Source: Aoe 1989; the layout of
  // darts-clone.
  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
  bool dummy_prefix_, join_blanks_;
  bool changed_lead_[256] = {};  // bytes with which a rule or a user-defined symbol begins, and blanks
};

}  // namespace mxtape
