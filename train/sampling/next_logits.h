#pragma once
#include <memory>
#include <span>
#include <vector>

#include "nn/model.h"

namespace mxtape {

/// Token ids of a text.
using TextTokens = std::vector<std::int32_t>;

/// The logits of the next token of texts that begin alike.
class NextLogits {
 public:
  virtual ~NextLogits() = default;
  /// [V] behind `prompt`, which all texts begin with.
  virtual std::vector<float> begin(std::span<const std::int32_t> prompt) = 0;
  /// [texts, V] behind `texts`, each one token longer than the last time.
  virtual std::vector<float> next(const std::vector<TextTokens>& texts) = 0;
};

/// A whole pass for each token, over the last `context` ones: of one text.
std::unique_ptr<NextLogits> whole_passes(Backend&, Model&, PassKey);

/// A pass over the prompt, then passes over one token of each of `texts` texts, with keys and values of the
/// tokens before. Texts that begin with `prompt` tokens will get `tokens` more. When they fill the context,
/// the newest half of it is run anew, each text on its own, and stands at positions 0 and up from then on.
/// On a CPU the logits of a text do not depend on how many others there are, up to 16 (most_texts).
std::unique_ptr<NextLogits> cached_passes(Backend&, Model&, PassKey, std::int64_t texts, std::int64_t prompt,
                                          std::int64_t tokens);
inline constexpr std::int64_t most_texts = 16;  ///< kernels/cpu/gemm.h

}  // namespace mxtape
