#pragma once

namespace mxtape {

/// While an object lives, the first SIGINT or SIGTERM only sets a flag, so that the step can be finished and
/// saved; the second ends the program at once with 128 + its number. Files that are being written then stay
/// under their temporary names.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked for the stop, or 0.
  static int received();
  /// "SIGINT", "SIGTERM".
  static const char* name_of(int signal);
};

}  // namespace mxtape
