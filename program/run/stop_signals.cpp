#include "program/run/stop_signals.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "core/files/atomic_file.h"

namespace mxtape {
namespace {

struct CaughtSignal {
  int number;
  const char* name;
  struct sigaction before;
};

volatile std::sig_atomic_t first_signal = 0, asked_to_stop = 0, asked_to_save = 0;
volatile std::sig_atomic_t shared = 0, silent = 0, early_stop = 0;
std::array<CaughtSignal, 5> caught_signals{{{SIGINT, "SIGINT", {}},
                                            {SIGTERM, "SIGTERM", {}},
                                            {SIGHUP, "SIGHUP", {}},
                                            {SIGUSR1, "SIGUSR1", {}},
                                            {SIGUSR2, "SIGUSR2", {}}}};

/// Whether a second one is a user who does not want to wait. A lost connection sends several SIGHUP, from the
/// kernel and from the shell; a batch system's SIGUSR1 warns of the SIGTERM that comes later.
bool is_impatience(int signal) { return signal == SIGINT || (signal == SIGTERM && !shared); }

// Only what signal-safety(7) allows: signal, write and _exit.
void on_signal(int signal) {
  if (signal == SIGUSR2) {
    asked_to_save = 1;
    return;
  }
  const int kept = errno;
  if (is_impatience(signal)) {
    if (asked_to_stop) ::_exit(128 + signal);
    asked_to_stop = 1;
  }
  if (!first_signal) first_signal = signal;
  const char* const text = is_impatience(signal)
                               ? "\nmxtape: finishing the step, then saving; once more stops at once\n"
                               : "\nmxtape: finishing the step, then saving\n";
  [[maybe_unused]] const auto written = silent ? 0 : ::write(STDERR_FILENO, text, std::strlen(text));
  errno = kept;
}

void on_early_request(int signal) { (signal == SIGUSR2 ? asked_to_save : early_stop) = signal; }

// SA_RESETHAND has given the signal its default back.
void on_end(int signal) {
  remove_unfinished();
  ::raise(signal);
}

void replace_default(std::initializer_list<int> signals, void (*handler)(int), int flags) {
  struct sigaction action {
  }, before{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int signal : signals) {
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void leave_no_unfinished_file() {
  replace_default({SIGINT, SIGTERM, SIGHUP}, on_end, SA_RESETHAND | SA_NODEFER);
}
void keep_early_requests() { replace_default({SIGUSR1, SIGUSR2}, on_early_request, SA_RESTART); }

StopSignals::StopSignals() {
  first_signal = 0;
  asked_to_stop = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // file operations in progress go on
  for (auto& [number, name, before] : caught_signals) {
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  if (early_stop && !first_signal) first_signal = early_stop;
  early_stop = 0;
}

StopSignals::~StopSignals() {
  // After a stop the program still has to say so and to end with its code: the rest of what came with the
  // first signal must not end it before.
  for (const auto& [number, name, before] : caught_signals)
    if (is_impatience(number) || (number != SIGUSR1 && number != SIGUSR2 && !first_signal))
      sigaction(number, &before, nullptr);
}

int StopSignals::received() { return first_signal; }

bool StopSignals::take_save_request() {
  if (!asked_to_save) return false;
  asked_to_save = 0;
  return true;
}

const char* StopSignals::name_of(int signal) {
  for (const auto& [number, name, before] : caught_signals)
    if (number == signal) return name;
  return "no signal";
}

void share_signals(Devices& devices) {
  shared = 1;
  silent = devices.rank() > 0;
  devices.report = [] {
    return fmt::format("{} {}", StopSignals::received(), StopSignals::take_save_request() ? 1 : 0);
  };
  devices.heard = [](int, const std::string& report) {
    const std::size_t blank = report.find(' ');
    if (blank == std::string::npos) return;
    if (const int signal = std::stoi(report); signal && !first_signal) first_signal = signal;
    if (report.substr(blank + 1) == "1") asked_to_save = 1;
  };
}

}  // namespace mxtape
