#pragma once
#include "dist/devices.h"

namespace mxtape {

/// From now on SIGINT, SIGTERM and SIGHUP take away the files and folders that are being written before they
/// end the program, as they do by default. Those that are ignored stay so.
void leave_no_unfinished_file();

/// From now on SIGUSR1 and SIGUSR2 wait for a StopSignals: they end no run that is about to begin.
void keep_early_requests();

/// While an object lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 only set a flag, so that the step can be
/// finished and saved; SIGUSR2 asks for a checkpoint without a stop. A second SIGINT or SIGTERM (of several
/// processes of a run SIGINT alone: share_signals) ends the program at once with 128 + its number. Files that
/// are being written then stay under their temporary names. A signal that is ignored when the object is made
/// stays so: SIGHUP under nohup, SIGINT in a background job of a script. Once a stop was asked for, SIGHUP
/// ends the program no more, also after the object's life. From its making on SIGUSR1 and SIGUSR2 never do:
/// after its life there is nothing left to save.
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
  /// "SIGINT", "SIGTERM", ...
  static const char* name_of(int signal);
};

/// Before a StopSignals lives: this process is one of several of a run, and what one of them is sent counts
/// as if it had come to rank 0. A launcher sends what it gets to all, and more than once: then a second
/// SIGINT alone ends the program at once, and rank 0 prints.
void share_signals(Devices&);

}  // namespace mxtape
