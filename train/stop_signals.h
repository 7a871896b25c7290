#pragma once

namespace mxtape {

/// While an object lives, SIGINT, SIGTERM and SIGHUP only set a flag, so that the step can be finished and
/// saved; a second SIGINT or SIGTERM ends the program at once with 128 + its number. Files that are being
/// written then stay under their temporary names. A SIGHUP that is ignored (nohup) stays so.
/// Once a stop was asked for, SIGHUP and SIGPIPE end the program no more, also after the object's life.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked for the stop, or 0.
  static int received();
  /// "SIGINT", "SIGTERM", "SIGHUP".
  static const char* name_of(int signal);
};

}  // namespace mxtape
