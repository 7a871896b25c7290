#pragma once
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace mxtape {

/// Decodes tokens one by one into text that can be shown at once: a character whose last bytes are still to
/// come is held back.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// The text that is whole now: all that was not given yet, but for an unfinished character.
  std::string push(std::int32_t token);
  /// What was held back and stays unfinished.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeState state_;
  std::string held_;
};

}  // namespace mxtape
