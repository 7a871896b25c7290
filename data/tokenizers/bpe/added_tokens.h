#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "data/tokenizers/bpe/piece_trie.h"
#include "data/tokenizers/kind.h"
#include "data/tokenizers/text/rules.h"

namespace mxtape {

/// Finds added tokens in a text: the leftmost first, the longest where several begin at one place.
class AddedTokens {
 public:
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  /// Calls text(std::string_view, offset) for what is between them, if it is not empty, and token(id) for
  /// each. Special ones are found only where `specials` says parse. Their number does not make it slower.
  void cut(std::string_view text, SpecialTokens specials,
           const std::function<void(std::string_view, std::size_t)>& on_text,
           const std::function<void(std::int32_t)>& on_token) const;
  /// -1 if there is none.
  std::int32_t find(std::string_view content) const;

 private:
  struct Set {
    PieceTrie trie;
    bool begins[256] = {};  // by byte: whether one begins with it
    void insert(const AddedToken&);
  };
  Set all_, ordinary_;  // ordinary_: those that are not special
};

}  // namespace mxtape
