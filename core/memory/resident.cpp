#include "core/memory/resident.h"

#include <fstream>
#include <string>

namespace mxtape {

std::int64_t most_resident_bytes(pid_t process) {
  std::ifstream status("/proc/" + (process ? std::to_string(process) : "self") + "/status");
  for (std::string word; status >> word;)
    if (std::int64_t kib = 0; word == "VmHWM:" && status >> kib) return kib << 10;
  return 0;
}

}  // namespace mxtape
