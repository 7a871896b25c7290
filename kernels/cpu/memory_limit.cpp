#include "kernels/cpu/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace mxtape::cpu {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// The number in a file; "max", a missing file or one that cannot be read: no_limit.
std::int64_t number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? number : no_limit;
}

/// The smallest limit from `group` up to the root of the hierarchy.
std::int64_t limit_of_groups(const std::filesystem::path& root, const std::string& group, const char* file) {
  std::int64_t limit = no_limit;
  for (std::filesystem::path path = group;; path = path.parent_path()) {
    limit = std::min(limit, number_in(root / path.relative_path() / file));
    if (path == path.parent_path()) return limit;
  }
}

std::int64_t limit_of_control_groups() {
  std::int64_t limit = no_limit;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice", "4:memory:/docker/1f"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (controllers.empty())
      limit = std::min(limit, limit_of_groups("/sys/fs/cgroup", group, "memory.max"));
    else if (("," + controllers + ",").find(",memory,") != std::string::npos)
      limit = std::min(limit, limit_of_groups("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
  }
  return limit;
}

/// What a limit leaves; /proc/self/statm counts pages: all mapped ones first, data the sixth.
std::int64_t left_of(int resource, int column) {
  struct rlimit limit {};
  if (getrlimit(__rlimit_resource_t(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return no_limit;
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0;
  for (int i = 0; i <= column; ++i) statm >> pages;
  return std::max<std::int64_t>(std::int64_t(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE), 0);
}

}  // namespace

std::int64_t memory_limit(int sharing) {
  const std::int64_t machine = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min({machine / sharing, limit_of_control_groups() / sharing, left_of(RLIMIT_AS, 0),
                   left_of(RLIMIT_DATA, 5)});
}

}  // namespace mxtape::cpu
