#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mxtape {

/// A token that stands for its text as a whole.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = true;      ///< else it is found in every text, also where specials are text
  bool normalized = false;  ///< to be found in the text that the normalizer made
};

/// What changes the text between added tokens, in order.
struct NormalizerStep {
  enum class Kind : std::uint8_t { nfc, prepend, replace } kind;
  std::string text{}, with{};  ///< prepend: text; replace: text by with
};

/// What cuts the text into words, in order.
struct SplitStep {
  enum class Kind : std::uint8_t { byte_level, pattern, literal, digits, metaspace } kind;
  enum class Behaviour : std::uint8_t { isolated, removed, with_previous, with_next, contiguous };
  enum class Prepend : std::uint8_t { always, first, never };
  std::string text{};  ///< pattern, literal; metaspace: what a blank becomes
  Behaviour behaviour = Behaviour::isolated;
  Prepend prepend = Prepend::never;  ///< a blank (byte_level) or `text` (metaspace), unless it is there
  bool invert = false;               ///< pattern, literal: what does not match is the delimiter
  bool cuts = true;                  ///< byte_level: by GPT-2's pattern; metaspace: before each `text`
  bool one_by_one = false;           ///< digits
  bool operator==(const SplitStep&) const = default;
};

/// How tokens that are no bytes become text; those of byte-level models become their bytes.
struct DecodeRules {
  std::vector<std::pair<std::string, std::string>> replace;  ///< in each token
  bool byte_fallback = false;                                ///< <0x41> is a byte
  int strip_start = 0;                                       ///< so many blanks at the start of the text
  std::string metaspace;  ///< becomes a blank, in the first token nothing where drop_first says so
  bool drop_first = false;
};

/// A byte pair encoding as tokenizer.json describes it, after all checks.
struct BpeRules {
  std::vector<std::string> pieces;     ///< by id, as the file writes them; added tokens too
  std::vector<std::uint8_t> in_model;  ///< by id: in the model's vocabulary, not only an added token
  struct Merge {
    std::int32_t left, right, result;
  };
  std::vector<Merge> merges;  ///< by rank
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStep> splitter;
  DecodeRules decoder;
  std::vector<std::int32_t> before, after;  ///< the template's tokens around a text
  std::int32_t unknown = -1;                ///< of characters that are no token; -1: none
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
  bool byte_level = false;  ///< the last step of the splitter: symbols are bytes, pieces are in stand-ins
};

// A tokenizer's file may come from anywhere. These limits keep what its rules cost, in time and in memory, in
// proportion to the file and to the text. Published files stay far below them.

/// Bytes of a text that a rule looks for or puts in its place, of an added token, of a SentencePiece piece.
inline constexpr std::size_t longest_rule_text = 1024;
/// Steps of one Sequence; the tokens that a template puts around a text.
inline constexpr std::size_t most_rule_steps = 64, most_template_tokens = 1024;
/// What rules may make of so many bytes. The largest growth in use is that of NFKC: 11 times.
constexpr std::size_t longest_rewritten(std::size_t bytes) { return 64 * bytes + 1024; }

}  // namespace mxtape
