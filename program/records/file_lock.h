#pragma once
#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/files/descriptor.h"

namespace mxtape {

/// A file that one process at a time may hold, or several may share; given back when this ends.
class FileLock {
 public:
  FileLock() = default;
  /// Makes the file if it is not there. `inherited`: children hold it too, until the last has ended. Throws
  /// Error(resource).
  explicit FileLock(std::filesystem::path path, bool inherited = false)
      : FileLock(std::move(path), O_RDWR | O_CREAT | (inherited ? 0 : O_CLOEXEC)) {
    require(bool(file_), ExitCode::resource, "{}: cannot be written: {}", path_.string(),
            std::strerror(errno));
  }
  /// Of a file that may be missing, or not be ours to open: then there is nothing to share.
  static FileLock to_share(std::filesystem::path path) { return {std::move(path), O_RDONLY | O_CLOEXEC}; }
  /// Whether it is this process's now; false: another one has it. Throws Error(resource) if it cannot be
  /// told, as on a file system without locks.
  bool take() const { return lock(LOCK_EX); }
  /// Whether nobody has taken it; then nobody can while this lives. Throws as take().
  bool share() const { return !file_ || lock(LOCK_SH); }
  int descriptor() const { return file_.number(); }

 private:
  FileLock(std::filesystem::path path, int flags)
      : path_(std::move(path)), file_(retried([&] { return ::open(path_.c_str(), flags, 0644); })) {}
  bool lock(int how) const {
    if (retried([&] { return ::flock(file_.number(), how | LOCK_NB); }) == 0) return true;
    require(errno == EWOULDBLOCK, ExitCode::resource,
            "{}: cannot be locked: {}; want a folder on a file system that has locks", path_.string(),
            std::strerror(errno));
    return false;
  }

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace mxtape
