#pragma once
#include <string>
#include <string_view>
#include <vector>

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

/// Lets a text that comes in parts through up to the first of some stop texts, wherever the parts were cut.
/// What may be the beginning of a stop text is held back until it is known.
class StopFilter {
 public:
  /// Throws Error(usage) if one is empty.
  explicit StopFilter(std::vector<std::string> stops);
  /// The part of the text that can be shown now. Nothing once a stop text was there.
  std::string push(std::string_view text);
  /// At the end: what was held back.
  std::string finish();
  bool stopped() const { return !stop_.empty(); }
  /// The stop text that ended the text: of those whose last byte came first the longest. "" if none did.
  const std::string& stop() const { return stop_; }

 private:
  /// Bytes at the end of what is held that a stop text may begin with.
  std::size_t undecided() const;

  std::vector<std::string> stops_;
  std::string held_, stop_;
};

}  // namespace mxtape
