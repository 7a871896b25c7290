#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "data/tokenizers/bpe/rules.h"
#include "data/tokenizers/kind.h"

namespace mxtape {

/// Finds added tokens in a text: the leftmost first, the longest where several begin at one place.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Calls text(std::string_view, offset) for what is between them, if it is not empty, and token(id) for
  /// each. Special ones are found only where `specials` says parse.
  void cut(std::string_view text, SpecialTokens specials,
           const std::function<void(std::string_view, std::size_t)>& on_text,
           const std::function<void(std::int32_t)>& on_token) const;
  /// -1 if there is none.
  std::int32_t find(std::string_view content) const;

 private:
  const AddedToken* at(std::string_view text, SpecialTokens) const;
  std::vector<AddedToken> tokens_;           // longest first
  std::vector<std::uint16_t> by_byte_[256];  // those that begin with this byte, longest first
};

}  // namespace mxtape
