#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizers/stop_filter.h"
#include "data/tokenizers/text_stream.h"

namespace mxtape {

/// A text as it grows token by token: its prompt, then what is drawn, up to a stop text.
class SampledText {
 public:
  SampledText(const Tokenizer&, std::span<const std::int32_t> prompt, const std::vector<std::string>& stops);

  /// False if the text ends here: a stop text is complete.
  bool push(std::int32_t token);
  /// After the last token.
  void finish();

  bool finished() const { return finished_; }
  /// Prompt and text that were not taken yet, in whole characters.
  std::string take();
  /// All that was drawn, as text without the prompt; and its tokens, the stop text's among them.
  const std::string& drawn() const { return drawn_; }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  /// What ended it; "": nothing did.
  const std::string& stop() const { return filter_.stop(); }

 private:
  void show(const std::string& text);

  TextStream stream_;
  StopFilter filter_;
  std::string shown_, drawn_;
  std::vector<std::int32_t> tokens_;
  bool finished_ = false;
};

}  // namespace mxtape
