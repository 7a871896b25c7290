#include "data/tokenizers/bpe/added_tokens.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace mxtape {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  require(tokens_.size() <= std::numeric_limits<std::uint16_t>::max(), ExitCode::data,
          "{} added tokens; want at most {}", tokens_.size(), std::numeric_limits<std::uint16_t>::max());
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& a, const auto& b) { return a.content.size() > b.content.size(); });
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    by_byte_[static_cast<unsigned char>(tokens_[i].content[0])].push_back(std::uint16_t(i));
}

const AddedToken* AddedTokens::at(std::string_view text, SpecialTokens specials) const {
  for (const std::uint16_t i : by_byte_[static_cast<unsigned char>(text[0])]) {
    const AddedToken& token = tokens_[i];
    if ((specials == SpecialTokens::parse || !token.special) && text.starts_with(token.content))
      return &token;
  }
  return nullptr;
}

void AddedTokens::cut(std::string_view text, SpecialTokens specials,
                      const std::function<void(std::string_view, std::size_t)>& on_text,
                      const std::function<void(std::int32_t)>& on_token) const {
  const bool any = std::any_of(tokens_.begin(), tokens_.end(), [&](const AddedToken& token) {
    return specials == SpecialTokens::parse || !token.special;
  });
  std::size_t begin = 0;
  for (std::size_t position = 0; any && position < text.size();) {
    const AddedToken* const token = at(text.substr(position), specials);
    if (!token) {
      ++position;
      continue;
    }
    if (position > begin) on_text(text.substr(begin, position - begin), begin);
    on_token(token->id);
    begin = position += token->content.size();
  }
  if (begin < text.size()) on_text(text.substr(begin), begin);
}

std::int32_t AddedTokens::find(std::string_view content) const {
  for (const AddedToken& token : tokens_)
    if (token.content == content) return token.id;
  return -1;
}

}  // namespace mxtape
