#pragma once
#include <sys/types.h>

#include <cstdint>

namespace mxtape {

/// Most resident memory that a process has had so far [bytes], VmHWM of /proc; 0 if it is gone. (getrusage()
/// and wait4() answer with at least what the program had from which it was started: fork() and exec() keep
/// their count.)
std::int64_t most_resident_bytes(pid_t process = 0);  ///< 0: this one

}  // namespace mxtape
