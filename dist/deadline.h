#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "dist/together.h"

namespace mxtape {

/// How many times as long a process waits for what one of them does alone.
inline constexpr double long_patience = 10;

/// How long a process waits for the others. What it slept through itself, stopped by a signal or with its
/// machine, is not their fault.
class Deadline {
 public:
  /// MXTAPE_PEER_TIMEOUT seconds, `long_patience` times as long for what one of them does alone, and `more`.
  Deadline(double timeout_seconds, Patience, double more = 0);
  /// Whether it has, or its last `seconds` have begun. To be asked at least every second.
  bool has_passed(double seconds = 0);
  /// Throws Error(peer). `ranks`: those who did not come, "1 (node2)".
  [[noreturn]] void blame(std::string_view what, const std::vector<std::string>& ranks) const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::duration length_;  // without `more`
  Clock::time_point last_, end_;
};

}  // namespace mxtape
