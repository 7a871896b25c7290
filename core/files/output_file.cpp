#include "core/files/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/held_size_signal.h"
#include "core/files/retried.h"
#include "core/files/status.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

void sync_name_of(const fs::path& finished) {
  const fs::path above = finished.has_parent_path() ? finished.parent_path() : fs::path(".");
  if (const int error = sync_folder(above))
    fail(ExitCode::resource, "{}: written, but {} cannot be synced: {}; a power cut may undo it",
         finished.string(), above.string(), std::strerror(error));
}

}  // namespace

OutputFile::OutputFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = retried([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  require(descriptor_ >= 0, ExitCode::resource, "{}: cannot be made: {}", path_.string(),
          std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t largest_write = std::size_t{1}
                                        << 30;  // Linux writes at most 2^31 - 4096 bytes at once
  while (!bytes.empty()) {
    ssize_t n = 0;
    int error = 0;
    {
      const HeldSizeSignal held;
      n = retried([&] { return ::write(descriptor_, bytes.data(), std::min(bytes.size(), largest_write)); });
      error = errno;  // before the signal mask is put back
    }
    require(n > 0, ExitCode::resource, "{}: cannot be written after byte {}: {}", path_.string(), written_,
            n == 0 ? "nothing was taken" : std::strerror(error));
    bytes = bytes.subspan(std::size_t(n));
    written_ += std::uint64_t(n);
  }
}

void OutputFile::finish() {
  const bool synced = retried([&] { return ::fsync(descriptor_); }) == 0;
  const int error = errno;
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  require(synced && closed, ExitCode::resource, "{}: cannot be written: {}", path_.string(),
          std::strerror(synced ? errno : error));
}

UnfinishedFolder::UnfinishedFolder(const fs::path& name) : name_(name) {
  if (!name_.has_filename()) name_ = name_.parent_path();  // "folder/"
  require(!fs::exists(link_status_of(name_)), ExitCode::usage,
          "{}: is there already; name another folder, or move it away", name_.string());
  std::error_code error;
  temporary_ = fmt::format("{}.tmp.{}", name_.string(), ::getpid());
  fs::remove_all(temporary_, error);  // of a process that had this number
  removed_by_signals_.emplace(temporary_);
  fs::create_directories(temporary_, error);
  require(!error, ExitCode::resource, "{}: cannot be made: {}", temporary_.string(), error.message());
}

UnfinishedFolder::~UnfinishedFolder() {
  std::error_code stays;
  if (!finished_) fs::remove_all(temporary_, stays);
}

std::uint64_t UnfinishedFolder::finish() {
  std::uint64_t bytes = 0;  // counted while an error still means that nothing was written
  for (const auto& entry : fs::recursive_directory_iterator(temporary_))
    if (entry.is_regular_file()) bytes += entry.file_size();
  if (const int error = sync_folder(temporary_))
    fail(ExitCode::resource, "{}: cannot be synced: {}", temporary_.string(), std::strerror(error));
  // Not rename() at once: that would take the place of an empty folder that was made meanwhile.
  int result = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, name_.c_str(), RENAME_NOREPLACE);
  if (result != 0 && errno == EINVAL) result = ::rename(temporary_.c_str(), name_.c_str());  // NFS
  require(result == 0, ExitCode::resource, "{}: cannot be given to the finished folder: {}", name_.string(),
          std::strerror(errno));
  finished_ = true;
  sync_name_of(name_);
  return bytes;
}

UnfinishedFile::UnfinishedFile(const fs::path& name)
    : name_(file_to_write(name)), temporary_(fmt::format("{}.tmp.{}", name_.string(), ::getpid())) {
  std::error_code error;
  if (name_.has_parent_path()) fs::create_directories(name_.parent_path(), error);
  require(!error, ExitCode::resource, "{}: its folder cannot be made: {}", name_.string(), error.message());
  fs::remove(temporary_, error);  // of a process that had this number
  removed_by_signals_.emplace(temporary_);
}

UnfinishedFile::~UnfinishedFile() {
  std::error_code stays;
  if (!finished_) fs::remove(temporary_, stays);
}

std::uint64_t UnfinishedFile::finish() {
  const std::uint64_t bytes = fs::file_size(temporary_);
  const bool named = ::rename(temporary_.c_str(), name_.c_str()) == 0;
  require(named, ExitCode::resource, "{}: cannot be given to the finished file: {}", name_.string(),
          std::strerror(errno));
  finished_ = true;
  sync_name_of(name_);
  return bytes;
}

}  // namespace mxtape
