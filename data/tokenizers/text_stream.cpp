#include "data/tokenizers/text_stream.h"

#include <utility>

#include "data/tokenizers/text/utf8.h"

namespace mxtape {

std::string TextStream::push(std::int32_t token) {
  tokenizer_.decode(token, state_, held_);
  const std::size_t whole = held_.size() - unfinished_bytes(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

std::string TextStream::finish() { return std::exchange(held_, {}); }

}  // namespace mxtape
