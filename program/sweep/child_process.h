#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mxtape {

/// This program once more, as a process of its own: what crashes there, or runs out of memory, takes no other
/// run with it. It is in its own process group, so that Ctrl-C in a terminal reaches the parent alone; if the
/// parent ends, however it ends, it gets SIGUSR1 and saves.
class ChildProcess {
 public:
  /// `words`: the program's arguments, beginning with the command. Output and messages are added to `log`,
  /// whose folder is made. Throws Error(resource) if no process can be started.
  ChildProcess(const std::vector<std::string>& words, const std::filesystem::path& log);
  /// If it still runs, stops it and waits until it has saved.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  struct End {
    int code;         ///< exit code, or 128 + the signal that ended it
    double peak_mib;  ///< most resident memory
    double seconds;
  };
  /// How it ended; none while it runs. After an answer, do not ask again.
  std::optional<End> poll();
  /// SIGTERM: it saves and ends.
  void stop() const;

 private:
  pid_t process_ = -1;
  std::int64_t floor_ = 0, peak_ = 0;  // resident bytes: what wait4() says at least, and what it has had
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace mxtape
