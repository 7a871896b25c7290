#pragma once
#include <cstddef>

namespace mxtape {

// A tokenizer's file may come from anywhere. These limits keep what its rules cost, in time and in memory, in
// proportion to the file and to the text. Published files stay far below them.

/// Bytes of a text that a rule looks for or puts in its place, of an added token, of a SentencePiece piece.
inline constexpr std::size_t longest_rule_text = 1024;
/// Steps of one Sequence; the tokens that a template puts around a text.
inline constexpr std::size_t most_rule_steps = 64, most_template_tokens = 1024;
/// What rules may make of so many bytes. The largest growth in use is that of NFKC: 11 times.
constexpr std::size_t longest_rewritten(std::size_t bytes) { return 64 * bytes + 1024; }

}  // namespace mxtape
