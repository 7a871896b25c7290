#include "data/tokenizers/text_stream.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {

std::string TextStream::push(std::int32_t token) {
  tokenizer_.decode(token, state_, held_);
  const std::size_t whole = held_.size() - unfinished_bytes(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

std::string TextStream::finish() { return std::exchange(held_, {}); }

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    require(!stop.empty(), ExitCode::usage,
            "an empty stop text would end every text; want at least a character");
}

std::size_t StopFilter::undecided() const {
  std::size_t most = 0;
  for (const std::string& stop : stops_)
    for (std::size_t n = std::min(held_.size(), stop.size() - 1); n > most; --n)
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) most = n;
  return most;
}

// Byte by byte, so that the result does not depend on how the text was cut.
std::string StopFilter::push(std::string_view text) {
  std::string shown;
  for (const char byte : text) {
    if (stopped()) break;
    held_ += byte;
    for (const std::string& stop : stops_)
      if (held_.ends_with(stop) && stop.size() > stop_.size()) stop_ = stop;
    const std::size_t kept = stopped() ? stop_.size() : undecided();
    shown.append(held_, 0, held_.size() - kept);
    held_.erase(0, held_.size() - kept);
    if (stopped()) held_.clear();
  }
  return shown;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace mxtape
