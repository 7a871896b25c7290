#pragma once

namespace mxtape {

/// From now on SIGINT, SIGTERM and SIGHUP take away the files and folders that are being written before they
/// end the program, as they do by default. Those that are ignored stay so.
void leave_no_unfinished_file();

/// While an object lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 only set a flag, so that the step can be
/// finished and saved; SIGUSR2 asks for a checkpoint without a stop. A second SIGINT or SIGTERM ends the
/// program at once with 128 + its number. Files that are being written then stay under their temporary names.
/// A signal that is ignored when the object is made stays so: SIGHUP under nohup, SIGINT in a background job
/// of a script. Once a stop was asked for, SIGHUP ends the program no more, also after the object's life.
/// SIGUSR1 and SIGUSR2 never do: then there is nothing left to save.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked for the stop, or 0.
  static int received();
  /// Whether a SIGUSR2 has come since the last call.
  static bool take_save_request();
  /// Before one lives: this process is one of several of a run. A launcher sends what it gets to all of them,
  /// and more than once: then a second SIGINT alone ends the program at once, and one of them prints.
  enum class Voice : bool { silent, speaks };
  static void share(Voice);
  /// What another process of the run was sent counts as if it had come here.
  static void hear(int signal);
  static void hear_save_request();
  /// "SIGINT", "SIGTERM", ...
  static const char* name_of(int signal);
};

}  // namespace mxtape
