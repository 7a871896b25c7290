#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/fuzz/target.h"

namespace mxtape::fuzz {

/// What a tokenizer that was taken promises, on a text of everything that rules look at and one of its own
/// tokens. A text may be refused.
inline void try_tokenizer(const Tokenizer& tokenizer) {
  const Tokenizer again = Tokenizer::from_json(tokenizer.to_json());
  promise(again == tokenizer, "a tokenizer reads back as it was written");
  std::string tokens;
  for (std::int32_t id = 0; id < std::min<std::int64_t>(tokenizer.size(), 64); ++id)
    if (const auto text = tokenizer.decode(std::vector<std::int32_t>{id});
        first_bad_byte(text) == text.size())
      tokens += text;
  for (const std::string& text :
       {std::string(" ab  the\u00e9e\u0301 \u2581x\u3000\ufb01 'S12345\r\n\n<s>\U0001f600\u4e2d!?aaaaaaaab "),
        tokens})
    for (const auto specials : {SpecialTokens::text, SpecialTokens::parse}) {
      const auto ids = tokenizer.encode(text, specials);
      for (const std::int32_t id : ids) promise(id >= 0 && id < tokenizer.size(), "ids are tokens");
      promise(again.encode(text, specials) == ids, "what was read back encodes the same");
      tokenizer.decode(ids);
    }
}

}  // namespace mxtape::fuzz
