#include "core/files/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/status.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

fs::path free_name(const fs::path& name) {
  const fs::path folder = name.has_filename() ? name : name.parent_path();  // "folder/"
  require(!fs::exists(link_status_of(folder)), ExitCode::usage,
          "{}: is there already; name another folder, or move it away", folder.string());
  return folder;
}

}  // namespace

OutputFile::OutputFile(fs::path path)
    : path_(std::move(path)), descriptor_(path_, O_WRONLY | O_CREAT | O_EXCL, 0666) {
  require(bool(descriptor_), ExitCode::resource, "{}: cannot be made: {}", path_.string(),
          std::strerror(errno));
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = descriptor_.write(bytes);
    require(n > 0, ExitCode::resource, "{}: cannot be written after byte {}: {}", path_.string(), written_,
            n == 0 ? "nothing was taken" : std::strerror(errno));
    bytes = bytes.subspan(std::size_t(n));
    written_ += std::uint64_t(n);
  }
}

void OutputFile::finish() {
  const bool synced = descriptor_.sync();
  const int error = errno;
  const bool closed = descriptor_.close();
  require(synced && closed, ExitCode::resource, "{}: cannot be written: {}", path_.string(),
          std::strerror(synced ? errno : error));
}

TemporaryName::TemporaryName(fs::path name)
    : name_(std::move(name)),
      temporary_(fmt::format("{}.tmp.{}", name_.string(), ::getpid())),
      removed_by_signals_(temporary_) {
  std::error_code stays;
  fs::remove_all(temporary_, stays);  // of a process that had this number
}

TemporaryName::~TemporaryName() {
  std::error_code stays;
  if (!finished_) fs::remove_all(temporary_, stays);
}

void TemporaryName::finish(int result, const char* kind) {
  require(result == 0, ExitCode::resource, "{}: cannot be given to the finished {}: {}", name_.string(), kind,
          std::strerror(errno));
  finished_ = true;
  const fs::path above = name_.has_parent_path() ? name_.parent_path() : fs::path(".");
  if (const int error = sync_folder(above))
    fail(ExitCode::resource, "{}: written, but {} cannot be synced: {}; a power cut may undo it",
         name_.string(), above.string(), std::strerror(error));
}

UnfinishedFolder::UnfinishedFolder(const fs::path& name) : TemporaryName(free_name(name)) {
  std::error_code error;
  fs::create_directories(path(), error);
  require(!error, ExitCode::resource, "{}: cannot be made: {}", path().string(), error.message());
}

std::uint64_t UnfinishedFolder::finish() {
  std::uint64_t bytes = 0;  // counted while an error still means that nothing was written
  for (const auto& entry : fs::recursive_directory_iterator(path()))
    if (entry.is_regular_file()) bytes += entry.file_size();
  if (const int error = sync_folder(path()))
    fail(ExitCode::resource, "{}: cannot be synced: {}", path().string(), std::strerror(error));
  // Not rename() at once: that would take the place of an empty folder that was made meanwhile.
  int result = ::renameat2(AT_FDCWD, path().c_str(), AT_FDCWD, name_.c_str(), RENAME_NOREPLACE);
  if (result != 0 && errno == EINVAL) result = ::rename(path().c_str(), name_.c_str());  // NFS
  TemporaryName::finish(result, "folder");
  return bytes;
}

UnfinishedFile::UnfinishedFile(const fs::path& name) : TemporaryName(file_to_write(name)) {
  std::error_code error;
  if (name_.has_parent_path()) fs::create_directories(name_.parent_path(), error);
  require(!error, ExitCode::resource, "{}: its folder cannot be made: {}", name_.string(), error.message());
}

std::uint64_t UnfinishedFile::finish() {
  const std::uint64_t bytes = fs::file_size(path());
  TemporaryName::finish(::rename(path().c_str(), name_.c_str()), "file");
  return bytes;
}

}  // namespace mxtape
