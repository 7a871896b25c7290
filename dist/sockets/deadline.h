#pragma once
#include <chrono>

namespace mxtape {

/// A moment by which something is to have happened.
class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(Seconds(seconds))) {}
  /// Seconds; below 0 after it.
  double left() const { return Seconds(end_ - std::chrono::steady_clock::now()).count(); }
  bool has_passed() const { return left() <= 0; }

 private:
  using Seconds = std::chrono::duration<double>;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace mxtape
