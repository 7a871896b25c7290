#include "train/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

namespace mxtape {
namespace {

volatile std::sig_atomic_t first_signal = 0;
struct sigaction old_interrupt, old_terminate;

// Only what signal-safety(7) allows: write and _exit.
void on_signal(int signal) {
  if (first_signal) ::_exit(128 + signal);
  first_signal = signal;
  constexpr char text[] = "\nmxtape: finishing the step, then saving; once more stops at once\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // file operations in progress go on
  sigaction(SIGINT, &action, &old_interrupt);
  sigaction(SIGTERM, &action, &old_terminate);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGTERM, &old_terminate, nullptr);
}

int StopSignals::received() { return first_signal; }

const char* StopSignals::name_of(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace mxtape
