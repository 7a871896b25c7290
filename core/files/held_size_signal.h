#pragma once
#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace mxtape {

/// Writing past the limit of a file's size (ulimit -f) raises SIGXFSZ, which ends the process. While this
/// lives the calling thread does not hear it: the write fails with EFBIG, to be reported as a full disk is.
class HeldSizeSignal {
 public:
  HeldSizeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~HeldSizeSignal() {
    const timespec now{};
    if (!sigismember(&before_, SIGXFSZ))
      while (sigtimedwait(&set_, nullptr, &now) > 0) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  HeldSizeSignal(const HeldSizeSignal&) = delete;
  HeldSizeSignal& operator=(const HeldSizeSignal&) = delete;

 private:
  sigset_t set_, before_;
};

}  // namespace mxtape
