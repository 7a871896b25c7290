#include "train/stop_signals.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

namespace mxtape {
namespace {

struct StopSignal {
  int number;
  const char* name;
  struct sigaction before;
};

volatile std::sig_atomic_t first_signal = 0, asked_to_stop = 0;
std::array<StopSignal, 3> stop_signals{
    {{SIGINT, "SIGINT", {}}, {SIGTERM, "SIGTERM", {}}, {SIGHUP, "SIGHUP", {}}}};
struct sigaction pipe_before;

// Only what signal-safety(7) allows: signal, write and _exit.
void on_signal(int signal) {
  // A lost connection sends several SIGHUP, from the kernel and from the shell: none of them is impatience.
  if (signal != SIGHUP) {
    if (asked_to_stop) ::_exit(128 + signal);
    asked_to_stop = 1;
  }
  if (!first_signal) first_signal = signal;
  // Whoever reads our output may have ended by the same signal, as in `mxtape train ... | tee log`.
  std::signal(SIGPIPE, SIG_IGN);
  constexpr char text[] = "\nmxtape: finishing the step, then saving; once more stops at once\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  asked_to_stop = 0;
  sigaction(SIGPIPE, nullptr, &pipe_before);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // file operations in progress go on
  for (auto& [number, name, before] : stop_signals) {
    sigaction(number, nullptr, &before);
    if (number != SIGHUP || before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (const auto& [number, name, before] : stop_signals) sigaction(number, &before, nullptr);
  sigaction(SIGPIPE, &pipe_before, nullptr);
}

int StopSignals::received() { return first_signal; }

const char* StopSignals::name_of(int signal) {
  for (const auto& [number, name, before] : stop_signals)
    if (number == signal) return name;
  return "no signal";
}

}  // namespace mxtape
