#include "core/files/unfinished.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/files/atomic_file.h"

namespace mxtape {
namespace {

// What a signal handler may read: no std::string.
struct Entry {
  std::atomic<bool> taken{false}, named{false};
  char name[4096];  // PATH_MAX
};
static_assert(std::atomic<bool>::is_always_lock_free);
std::array<Entry, 16> entries;

}  // namespace

Unfinished::Unfinished(const std::filesystem::path& temporary) noexcept {
  if (temporary.native().size() >= sizeof Entry::name) return;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].taken.exchange(true)) continue;
    std::strcpy(entries[i].name, temporary.c_str());
    entries[i].named = true;
    entry_ = int(i);
    return;
  }
}

Unfinished::~Unfinished() {
  if (entry_ < 0) return;
  Entry& entry = entries[std::size_t(entry_)];
  entry.named = false;
  entry.taken = false;
}

// It calls what signal-safety(7) allows, and vfork, a bare system call. unlink and rm follow no link.
void remove_unfinished() noexcept {
  for (const Entry& entry : entries) {
    if (!entry.named || ::unlink(entry.name) == 0 || errno != EISDIR) continue;
    const pid_t child = ::vfork();
    if (child == 0) ::execl("/bin/rm", "rm", "-rf", "--", entry.name, nullptr), ::_exit(1);
    if (child > 0) ::waitpid(child, nullptr, 0);
  }
}

}  // namespace mxtape
