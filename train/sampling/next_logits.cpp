#include "train/sampling/next_logits.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/mx_transfer.h"
#include "nn/key_value_cache.h"
#include "train/evaluate.h"

namespace mxtape {
namespace {

/// x [rows, V] on the host in f32. Throws Error(diverged) if a number is not finite.
std::vector<float> finite_logits(Backend& backend, const Tensor& x) {
  const std::vector<float> numbers = downloaded(backend, x);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    require(std::isfinite(numbers[i]), ExitCode::diverged,
            "sample: the logit of token {} is {}; want a model whose logits are finite",
            i % std::size_t(x.cols()), numbers[i]);
  return numbers;
}

std::span<const std::int32_t> newest(std::span<const std::int32_t> text, std::int64_t most) {
  return text.last(std::min(text.size(), std::size_t(most)));
}

class WholePasses final : public NextLogits {
 public:
  WholePasses(Backend& backend, Model& model, PassKey pass) : backend_(backend), model_(model), pass_(pass) {}

  /// The input is padded at the end to a power of two, so that a growing text meets few shapes (each costs
  /// the GEMM library a set-up). No position attends to what comes after it; a scale that tokens share (of a
  /// whole tensor, or of blocks along keys) sees the padding, too.
  std::vector<float> begin(std::span<const std::int32_t> text) override {
    const auto recent = newest(text, model_.config().context);
    const std::int64_t time = std::min(model_.config().context, std::int64_t(std::bit_ceil(recent.size())));
    TextTokens padded(recent.begin(), recent.end());
    padded.resize(std::size_t(time), recent.back());
    Tape tape(backend_, Tape::Mode::evaluation, pass_);
    const Var all = model_.forward(tape, upload_tokens(backend_, padded, {1, time}));
    const std::int64_t V = model_.config().vocabulary, last = std::int64_t(recent.size()) - 1;
    return finite_logits(backend_, all.value.part(last * V, {1, V}));
  }
  std::vector<float> next(const std::vector<TextTokens>& texts) override {
    require(texts.size() == 1, "sample: {} texts in one pass, want 1", texts.size());
    return begin(texts.front());
  }

 private:
  Backend& backend_;
  Model& model_;
  PassKey pass_;
};

class CachedPasses final : public NextLogits {
 public:
  CachedPasses(Backend& backend, Model& model, PassKey pass, std::int64_t texts, std::int64_t prompt,
               std::int64_t tokens)
      : backend_(backend),
        model_(model),
        pass_(pass),
        cache_(texts, room_for(prompt, tokens, model.config().context)) {}

  std::vector<float> begin(std::span<const std::int32_t> prompt) override {
    return run_anew(newest(prompt, cache_.room()), 0, cache_.batch());
  }

  std::vector<float> next(const std::vector<TextTokens>& texts) override {
    if (cache_.length() == cache_.room()) return renewed(texts);
    TextTokens last;
    for (const TextTokens& text : texts) last.push_back(text.back());
    return extend(cache_, last, cache_.batch(), 1);
  }

 private:
  static std::int64_t room_for(std::int64_t prompt, std::int64_t tokens, std::int64_t context) {
    return prompt >= context || tokens >= context - prompt ? context : prompt + tokens;
  }
  std::vector<float> extend(KeyValueCache& cache, const TextTokens& tokens, std::int64_t B, std::int64_t T) {
    Tape tape(backend_, Tape::Mode::evaluation, pass_);
    return finite_logits(backend_, model_.extend(tape, upload_tokens(backend_, tokens, {B, T}), cache).value);
  }

  /// Alone, so that texts do not depend on each other; then a copy for each of `count` texts from `first` on.
  std::vector<float> run_anew(std::span<const std::int32_t> tokens, std::int64_t first, std::int64_t count) {
    const auto T = std::int64_t(tokens.size());
    KeyValueCache alone(1, cache_.batch() == 1 ? cache_.room() : T);
    std::vector<float> logits = extend(alone, {tokens.begin(), tokens.end()}, 1, T);
    if (cache_.batch() == 1)
      cache_ = std::move(alone);
    else
      for (std::int64_t b = first; b < first + count; ++b) cache_.put(backend_, b, alone);
    return logits;
  }

  std::vector<float> renewed(const std::vector<TextTokens>& texts) {
    std::vector<float> all;
    for (std::size_t b = 0; b < texts.size(); ++b) {
      const auto half = newest(texts[b], std::max<std::int64_t>(1, model_.config().context / 2));
      const auto logits = run_anew(half, std::int64_t(b), 1);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

  Backend& backend_;
  Model& model_;
  PassKey pass_;
  KeyValueCache cache_;
};

}  // namespace

std::unique_ptr<NextLogits> whole_passes(Backend& backend, Model& model, PassKey pass) {
  return std::make_unique<WholePasses>(backend, model, pass);
}

std::unique_ptr<NextLogits> cached_passes(Backend& backend, Model& model, PassKey pass, std::int64_t texts,
                                          std::int64_t prompt, std::int64_t tokens) {
  return std::make_unique<CachedPasses>(backend, model, pass, texts, prompt, tokens);
}

}  // namespace mxtape
