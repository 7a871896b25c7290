#include "core/threads/affinity.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace mxtape {
namespace {

/// An empty set where the kernel has more processors than the set has room for.
cpu_set_t allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
  return set;
}

}  // namespace

int allowed_processors() {
  const cpu_set_t set = allowed();
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : std::max(1, int(std::thread::hardware_concurrency()));
}

std::string allowed_processors_text() {
  const cpu_set_t set = allowed();
  std::string text;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) text.append(text.empty() ? "" : ",").append(std::to_string(i));
  return text;
}

}  // namespace mxtape
