#pragma once
#include "tests/program/devices/shared_program.h"

namespace mxtape::test {

/// `mxtape train ... --devices N`, in the folder of a SharedProgram.
class Ranks : public SharedProgram {
 protected:
  static Words on_devices(int count, Words words) {
    words.insert(words.end(), {"--devices", std::to_string(count)});
    return words;
  }
  int on(int count, const Words& words) { return run(on_devices(count, words)); }
  /// Its processes by rank, once they are there.
  static std::vector<pid_t> processes_of(const Program& run, std::size_t count) {
    return SharedProgram::processes_of(run, count, [&](pid_t pid) -> std::optional<int> {
      if (pid == run.pid()) return 0;
      const std::string name = read_proc(pid, "comm"), begin = "mxtape rank ";
      if (!name.starts_with(begin) || parent_of(pid) != run.pid()) return {};
      return std::atoi(name.c_str() + begin.size());
    });
  }
};

}  // namespace mxtape::test
