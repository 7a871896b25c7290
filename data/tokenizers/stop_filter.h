#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// Lets a text that comes in parts through up to the first of some stop texts, wherever the parts were cut.
/// What may be the beginning of a stop text is held back until it is known.
class StopFilter {
 public:
  /// Throws Error(usage) if one is empty.
  explicit StopFilter(std::vector<std::string> stops);
  /// The part of the text that can be shown now. Nothing once a stop text was there.
  std::string push(std::string_view text);
  /// At the end: what was held back.
  std::string finish();
  bool stopped() const { return !stop_.empty(); }
  /// The stop text that ended the text: of those whose last byte came first the longest. "" if none did.
  const std::string& stop() const { return stop_; }

 private:
  /// Bytes at the end of what is held that a stop text may begin with.
  std::size_t undecided() const;

  std::vector<std::string> stops_;
  std::string held_, stop_;
};

}  // namespace mxtape
