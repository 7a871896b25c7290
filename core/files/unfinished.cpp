#include "core/files/unfinished.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
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

/// A record of getdents64(2).
struct FolderRecord {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

void remove_content(int folder, int depth);

/// No link is followed: unlinkat() removes the link, and O_NOFOLLOW opens none.
void remove_name(int above, const char* name, int depth) {
  if (::unlinkat(above, name, 0) == 0 || depth == 0) return;
  const int folder = ::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  remove_content(folder, depth);
  ::close(folder);
  ::unlinkat(above, name, AT_REMOVEDIR);
}

// opendir(3) allocates, so a handler must not call it.
void remove_content(int folder, int depth) {
  alignas(FolderRecord) char records[4096];
  // Names that go while a folder is read may hide others: it is read from its beginning until it is empty.
  for (bool removed = true; removed;) {
    removed = false;
    ::lseek(folder, 0, SEEK_SET);
    for (long bytes = 0; (bytes = ::syscall(SYS_getdents64, folder, records, sizeof records)) > 0;)
      for (long at = 0; at < bytes;) {
        const char* const record = records + at;
        std::uint16_t length = 0;
        std::memcpy(&length, record + offsetof(FolderRecord, length), sizeof length);
        const char* const name = record + offsetof(FolderRecord, name);
        at += length;
        if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
        remove_name(folder, name, depth - 1);
        removed = removed || ::faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
      }
  }
}

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

// It calls what signal-safety(7) allows, and getdents64, which takes no lock.
void remove_unfinished() noexcept {
  constexpr int deepest = 4;  // a run's folder has one folder inside
  for (const Entry& entry : entries)
    if (entry.named) remove_name(AT_FDCWD, entry.name, deepest);
}

}  // namespace mxtape
