#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"

namespace mxtape {

/// A file that one process at a time may hold, made if it is not there; given back when this ends.
class FileLock {
 public:
  FileLock() = default;
  /// `inherited`: children hold it too, until the last has ended. Throws Error(resource).
  explicit FileLock(const std::filesystem::path& path, bool inherited = false)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | (inherited ? 0 : O_CLOEXEC), 0644)) {
    require(file_ >= 0, ExitCode::resource, "{}: cannot be written: {}", path.string(), std::strerror(errno));
  }
  FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileLock() {
    if (file_ >= 0) ::close(file_);
  }
  /// Whether it is this process's now; false: another one has it.
  bool take() const { return ::flock(file_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int file_ = -1;
};

}  // namespace mxtape
