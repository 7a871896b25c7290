#include "data/tokenizers/bpe/added_tokens.h"

namespace mxtape {

void AddedTokens::Set::insert(const AddedToken& token) {
  trie.insert(token.content, token.id);
  begins[static_cast<unsigned char>(token.content[0])] = true;
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    all_.insert(token);
    if (!token.special) ordinary_.insert(token);
  }
}

void AddedTokens::cut(std::string_view text, SpecialTokens specials,
                      const std::function<void(std::string_view, std::size_t)>& on_text,
                      const std::function<void(std::int32_t)>& on_token) const {
  const Set& set = specials == SpecialTokens::parse ? all_ : ordinary_;
  std::size_t begin = 0;
  for (std::size_t position = 0; !set.trie.empty() && position < text.size();) {
    std::int32_t id = -1;
    const bool may_begin = set.begins[static_cast<unsigned char>(text[position])];
    const std::size_t length = may_begin ? set.trie.longest(text.substr(position), &id) : 0;
    if (length == 0) {
      ++position;
      continue;
    }
    if (position > begin) on_text(text.substr(begin, position - begin), begin);
    on_token(id);
    begin = position += length;
  }
  if (begin < text.size()) on_text(text.substr(begin), begin);
}

std::int32_t AddedTokens::find(std::string_view content) const {
  std::int32_t id = -1;
  return all_.trie.longest(content, &id) == content.size() ? id : -1;
}

}  // namespace mxtape
