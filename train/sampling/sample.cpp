#include "train/sampling/sample.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "train/sampling/next_logits.h"
#include "train/sampling/token_filter.h"

namespace mxtape {
namespace {

using Timer = std::chrono::steady_clock;
using OnToken = std::function<bool(std::int64_t text, std::int32_t token)>;

/// Texts of one batch, and which of them go on.
class SampledBatch {
 public:
  SampledBatch(const SampleOptions& options, std::span<const std::int32_t> prompt, std::int64_t first,
               std::int64_t count, std::int64_t tokens_known)
      : options_(options),
        first_(first),
        known_(std::size_t(tokens_known)),
        texts_(std::size_t(count), TextTokens(prompt.begin(), prompt.end())),
        live_(std::size_t(count), true) {}

  const std::vector<TextTokens>& texts() const { return texts_; }
  bool live() const { return std::find(live_.begin(), live_.end(), true) != live_.end(); }

  /// Token `number` of each text, from `logits` [texts, V], or [V] for all. Returns how many were drawn.
  std::int64_t draw(std::span<const float> logits, std::size_t V, std::int64_t number,
                    const OnToken& on_token) {
    std::int64_t drawn = 0;
    for (std::size_t b = 0; b < texts_.size(); ++b) {
      // A text that has ended keeps its row: passes cost what reading the weights costs.
      std::int32_t token = texts_[b].back();
      if (live_[b]) {
        const std::int64_t text = first_ + std::int64_t(b);
        const auto row = logits.size() == V ? logits : logits.subspan(b * V, V);
        const DrawKey draws{.seed = options_.seed + std::uint64_t(text), .purpose = Purpose::sampling};
        token = draw_token(row.first(known_),
                           {options_.temperature, options_.top_k, options_.top_p, options_.min_p},
                           draws.uniform(std::uint64_t(number)));
        live_[b] = on_token(text, token);
        ++drawn;
      }
      texts_[b].push_back(token);
    }
    return drawn;
  }

 private:
  const SampleOptions& options_;
  std::int64_t first_;
  std::size_t known_;
  std::vector<TextTokens> texts_;
  std::vector<bool> live_;
};

double seconds_since(Timer::time_point& from) {
  const auto now = Timer::now();
  return std::chrono::duration<double>(now - std::exchange(from, now)).count();
}

}  // namespace

SampleTimes sample_texts(Backend& backend, Model& model, std::span<const std::int32_t> prompt,
                         const SampleOptions& options, std::int64_t texts, const OnToken& on_token) {
  require(!prompt.empty(), ExitCode::usage, "sample: the prompt is empty; want at least one token");
  const std::int64_t vocabulary = model.config().vocabulary;
  const std::int64_t tokens_known = options.tokens_known > 0 ? options.tokens_known : vocabulary;
  require(tokens_known <= vocabulary, "sample: {} tokens are known, the model has {}", tokens_known,
          vocabulary);
  const auto length = std::int64_t(prompt.size());
  SampleTimes times;
  const bool cached = options.cache && model.no_cache().empty();
  const std::int64_t together = cached ? most_texts : 1;
  if (options.tokens == 0) return times;
  for (std::int64_t first = 0; first < texts; first += together) {
    const std::int64_t count = std::min(together, texts - first);
    const auto source = cached ? cached_passes(backend, model, options.pass, count, length, options.tokens)
                               : whole_passes(backend, model, options.pass);
    SampledBatch batch(options, prompt, first, count, tokens_known);
    auto clock = Timer::now();
    std::vector<float> logits = source->begin(prompt);
    times.prompt_seconds += seconds_since(clock);
    times.prompt_tokens += std::min(length, model.config().context);
    batch.draw(logits, std::size_t(vocabulary), 0, on_token);
    for (std::int64_t i = 1; i < options.tokens && batch.live(); ++i) {
      logits = source->next(batch.texts());
      times.tokens += batch.draw(logits, std::size_t(vocabulary), i, on_token);
    }
    times.seconds += seconds_since(clock);
  }
  return times;
}

std::vector<std::int32_t> sample(Backend& backend, Model& model, std::span<const std::int32_t> prompt,
                                 const SampleOptions& options) {
  std::vector<std::int32_t> drawn;
  sample_texts(backend, model, prompt, options, 1, [&](std::int64_t, std::int32_t token) {
    drawn.push_back(token);
    if (options.on_token) options.on_token(token);
    return true;
  });
  return drawn;
}

}  // namespace mxtape
