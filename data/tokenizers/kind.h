#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// What becomes of the text of special tokens, as <|endoftext|>, in a text that is encoded.
enum class SpecialTokens : std::uint8_t { text, parse };

/// How far a text has been decoded: some tokenizers take a blank away at its start.
struct DecodeState {
  std::int64_t tokens = 0;  ///< before this one
  int stripped = 0;         ///< blanks that were taken away
  bool at_start = true;     ///< nothing was written yet
};

/// What a tokenizer of one kind does. A Tokenizer holds one and shares it with its copies; docs and errors as
/// there.
class TokenizerKind {
 public:
  virtual ~TokenizerKind() = default;
  virtual std::int64_t size() const = 0;
  virtual std::string text() const = 0;
  virtual std::string to_json() const = 0;
  virtual std::vector<std::int32_t> encode(std::string_view text, SpecialTokens) const = 0;
  /// Appends what a token in [0, size()) stands for.
  virtual void decode(std::int32_t token, DecodeState&, std::string& text) const = 0;
  /// A token as messages show it.
  virtual std::string shown(std::int32_t token) const = 0;
  /// Tokens that go in front of every text that is given to a model.
  virtual std::vector<std::int32_t> template_before() const { return {}; }
  /// The token with exactly this text, or -1: "<|endoftext|>".
  virtual std::int32_t special(std::string_view) const { return -1; }
  /// Whether SpecialTokens::parse finds any.
  virtual bool finds_specials() const { return false; }
};

}  // namespace mxtape
