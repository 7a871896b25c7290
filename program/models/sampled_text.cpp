#include "program/models/sampled_text.h"

#include <utility>

namespace mxtape {

SampledText::SampledText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                         const std::vector<std::string>& stops)
    : stream_(tokenizer), filter_(stops) {
  for (const std::int32_t token : prompt) shown_ += stream_.push(token);
}

void SampledText::show(const std::string& text) {
  shown_ += text;
  drawn_ += text;
}

bool SampledText::push(std::int32_t token) {
  tokens_.push_back(token);
  show(filter_.push(stream_.push(token)));
  finished_ = filter_.stopped();
  return !finished_;
}

void SampledText::finish() {
  if (!finished_) show(filter_.push(stream_.finish()));
  if (!filter_.stopped()) show(filter_.finish());
  finished_ = true;
}

std::string SampledText::take() { return std::exchange(shown_, {}); }

}  // namespace mxtape
