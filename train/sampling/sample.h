#pragma once
#include <functional>
#include <span>
#include <vector>

#include "nn/model.h"

namespace mxtape {

struct SampleOptions {
  std::int64_t tokens = 200;
  double temperature = 1;  ///< this and the next three: TokenFilter
  std::int64_t top_k = 0;
  double top_p = 1, min_p = 0;
  /// Only tokens below it may be drawn: those that the tokenizer knows, of a model whose vocabulary is
  /// padded. 0: all.
  std::int64_t tokens_known = 0;
  std::uint64_t seed = 1;
  PassKey pass{};                                      ///< as EvaluateOptions::pass
  std::function<void(std::int32_t token)> on_token{};  ///< called as soon as a token is known
  bool cache = true;  ///< false: a whole pass for each token, also where Model::no_cache() is ""
};

/// Draws `tokens` tokens one after the other, each from the model's distribution after the last ones: the
/// text may be longer than the context. Keys and values of the tokens before are kept if the model can do so
/// (Model::no_cache()); a text that fills the context goes on behind its newest half. Without them each token
/// follows the last `context` ones. `prompt` must hold at least one token. The same seed gives the same text.
/// Returns the new tokens. Throws Error(diverged) if a logit is not finite.
std::vector<std::int32_t> sample(Backend&, Model&, std::span<const std::int32_t> prompt,
                                 const SampleOptions&);

/// How long it took.
struct SampleTimes {
  std::int64_t prompt_tokens = 0;  ///< the prompt's, at most the context; once for each batch
  double prompt_seconds = 0;       ///< of the passes over them
  std::int64_t tokens = 0;         ///< drawn by the passes behind it: all but the first of each text
  double seconds = 0;
};

/// Several texts behind one prompt, up to 16 in one batch if keys and values are kept. Text i is what
/// sample() draws with seed options.seed + i: bit for bit on a CPU, on a GPU but for the order of additions.
/// `on_token` is called instead of options.on_token; where it says false, text i ends.
SampleTimes sample_texts(Backend&, Model&, std::span<const std::int32_t> prompt, const SampleOptions&,
                         std::int64_t texts,
                         const std::function<bool(std::int64_t text, std::int32_t token)>& on_token);

}  // namespace mxtape
