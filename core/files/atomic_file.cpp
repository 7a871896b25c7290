#include "core/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/files/descriptor.h"
#include "core/files/unfinished.h"
#include "core/text/nearest_name.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// Returns 0 or the errno of the write that failed.
int write_all(const Descriptor& file, std::span<const std::byte> content) {
  while (!content.empty()) {
    const ssize_t written = file.write(content);
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    content = content.subspan(std::size_t(written));
  }
  return 0;
}

std::string free_bytes(const fs::path& folder) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  return error ? "unknown" : std::to_string(space.available);
}

/// Makes `folder` and what is missing above it, each one on the disk before the next. `path`: the file that
/// wants it.
void make_folders(const fs::path& folder, const fs::path& path) {
  if (folder.empty() || ::access(folder.c_str(), F_OK) == 0) return;
  make_folders(folder.parent_path(), path);
  const fs::path above = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  const bool made = ::mkdir(folder.c_str(), 0777) == 0 || errno == EEXIST;
  const int error = made ? sync_folder(above) : errno;
  require(error == 0, ExitCode::resource, "{}: cannot make folder {}: {}", path.string(), folder.string(),
          std::strerror(error));
}

void require_regular(const fs::path& path, mode_t mode, ExitCode code) {
  require(S_ISREG(mode), code, "{}: is a {}, want a file", path.string(),
          S_ISDIR(mode) ? "folder" : "device or pipe");
}

}  // namespace

int sync_folder(const fs::path& folder) {
  const Descriptor directory(folder, O_RDONLY | O_DIRECTORY);
  if (directory && directory.sync()) return 0;
  // EINVAL: a file system that cannot sync folders orders its changes itself.
  return directory && errno == EINVAL ? 0 : errno;
}

fs::path file_to_write(const fs::path& path) {
  struct stat status {};
  // Of what the links lead to: /dev/stdout may lead to a pipe, which has no name to follow.
  if (::stat(path.c_str(), &status) == 0) require_regular(path, status.st_mode, ExitCode::resource);
  constexpr int most_links = 40;  // what Linux follows
  fs::path file = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(file, error)); ++links) {
    require(links < most_links, ExitCode::resource, "{}: its links lead in a circle", path.string());
    file = file.parent_path() / fs::read_symlink(file);
  }
  return file;
}

void write_parts_atomically(const fs::path& name, std::initializer_list<std::span<const std::byte>> parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  const fs::path path = file_to_write(name);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path temporary = path.string() + ".tmp." + std::to_string(::getpid());
  make_folders(folder, path);
  const Unfinished unfinished(temporary);
  const auto stop = [&](const char* what, int error) {
    std::string room;  // where that is what is missing
    if (error == ENOSPC || error == EDQUOT)
      room = fmt::format("{} bytes are needed, {} are free; ", bytes, free_bytes(folder));
    if (error == EFBIG) room = fmt::format("{} bytes are needed; ", bytes);
    ::unlink(temporary.c_str());
    fail(ExitCode::resource, "{}: cannot {}: {}; {}nothing under that name changed", path.string(), what,
         std::strerror(error), room);
  };
  {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
    if (!file) {
      const int error = errno;
      fail(ExitCode::resource, "{}: cannot create a file in folder {}: {}", path.string(), folder.string(),
           std::strerror(error));
    }
    for (const auto& part : parts)
      if (const int error = write_all(file, part)) stop("write", error);
    if (!file.sync()) stop("sync", errno);
    if (!file.close()) stop("close", errno);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) stop("rename the finished file", errno);
  if (const int error = sync_folder(folder))
    fail(ExitCode::resource, "{}: written, but folder {} cannot be synced: {}; a power cut may undo it",
         path.string(), folder.string(), std::strerror(error));
}

void write_atomically(const fs::path& path, std::span<const std::byte> content) {
  write_parts_atomically(path, {content});
}

void write_atomically(const fs::path& path, std::string_view content) {
  write_atomically(path, {reinterpret_cast<const std::byte*>(content.data()), content.size()});
}

std::vector<std::byte> read_whole(const fs::path& path) {
  // A pipe would hold the call up until somebody writes into it.
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  if (!file) {
    const int error = errno;
    fail(error == ENOENT || error == ENOTDIR ? ExitCode::data : ExitCode::resource, "{}{}: cannot open: {}",
         path.string(), error == ENOENT ? near_path(path) : "", std::strerror(error));
  }
  struct stat status {};
  const bool known = ::fstat(file.number(), &status) == 0;
  require(known, ExitCode::resource, "{}: cannot stat: {}", path.string(), std::strerror(errno));
  require_regular(path, status.st_mode, ExitCode::data);
  // The kernel's own files, below /proc, say that they are empty.
  const bool sized = status.st_size > 0;
  constexpr std::size_t piece = 4096;
  std::vector<std::byte> content(sized ? std::size_t(status.st_size) : piece);
  std::size_t have = 0;
  while (have < content.size()) {
    const auto got =
        retried([&] { return ::read(file.number(), content.data() + have, content.size() - have); });
    require(got >= 0, ExitCode::resource, "{}: cannot read byte {}: {}", path.string(), have,
            std::strerror(errno));
    if (got == 0) break;
    have += std::size_t(got);
    if (!sized && have == content.size()) content.resize(2 * have);
  }
  require(!sized || have == content.size(), ExitCode::data, "{}: ended at byte {} of {} while it was read",
          path.string(), have, content.size());
  content.resize(have);
  return content;
}

std::string read_whole_text(const fs::path& path) {
  const auto bytes = read_whole(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace mxtape
