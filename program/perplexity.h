#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mxtape {

/// mxtape eval RUN --text FILE.
struct TextEvaluation {
  std::string run, device, text;
  std::int64_t stride = 0;  ///< 0: the context
  bool bos_each = false;    ///< the tokenizer's BOS in front of each window
  std::vector<std::string> precisions;
  bool chosen = false;  ///< precisions were given
  bool weights_only = false, attention = false, json = false;
};

/// Prints loss, perplexity and bits per byte of a text under a trained model, in f32 and cast into each
/// precision. Throws Error(usage) for a stride beyond the context or a BOS that the tokenizer has not;
/// Error(data) for a text that the tokenizer cannot encode, or is shorter than two tokens.
void evaluate_text(const TextEvaluation&);

}  // namespace mxtape
