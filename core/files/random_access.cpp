#include "core/files/random_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace mxtape {

// O_NONBLOCK: a pipe would hold the call up until somebody writes into it.
RandomAccessFile::RandomAccessFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(path_, O_RDONLY | O_NONBLOCK) {
  require(bool(descriptor_), errno == ENOENT || errno == ENOTDIR ? ExitCode::data : ExitCode::resource,
          "{}: cannot be opened: {}", path_.string(), std::strerror(errno));
  stamp_ = stamp_now();
}

FileStamp RandomAccessFile::stamp_now() const {
  struct stat status {};
  const bool known = ::fstat(descriptor_.number(), &status) == 0;  // before errno is looked at
  require(known, ExitCode::resource, "{}: cannot be looked at: {}", path_.string(), std::strerror(errno));
  require(S_ISREG(status.st_mode), ExitCode::data, "{}: is a folder, device or pipe, want a file",
          path_.string());
  const auto nanoseconds = [](const timespec& t) {
    return std::int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  };
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = std::uint64_t(status.st_size),
          .modified = nanoseconds(status.st_mtim),
          .changed = nanoseconds(status.st_ctim)};
}

void RandomAccessFile::read(std::uint64_t begin, std::span<std::byte> out) const {
  constexpr std::size_t largest_read = std::size_t{1} << 30;  // Linux reads at most 2^31 - 4096 bytes at once
  while (!out.empty()) {
    const ssize_t n = retried([&] {
      return ::pread(descriptor_.number(), out.data(), std::min(out.size(), largest_read), off_t(begin));
    });
    require(n >= 0, ExitCode::resource, "{}: byte {} cannot be read: {}", path_.string(), begin,
            std::strerror(errno));
    require(n > 0, ExitCode::data, "{}: ends at byte {}; it had {} bytes when it was opened", path_.string(),
            begin, size());
    out = out.subspan(std::size_t(n));
    begin += std::uint64_t(n);
  }
}

std::string RandomAccessFile::beginning(std::size_t most) const {
  std::string text(std::size_t(std::min<std::uint64_t>(most, size())), '\0');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace mxtape
