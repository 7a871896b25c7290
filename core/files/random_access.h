#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/files/descriptor.h"

namespace mxtape {

/// What the file system says of a file. Whoever changes a byte changes `modified` and `changed`, unless
/// their clock has not ticked since; a program can set the first back, not the second.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified = 0, changed = 0;  ///< [ns since 1970]: of the content; of all that is said of it
  bool operator==(const FileStamp&) const = default;
};

/// Bytes [begin, begin + size) of a file.
struct ByteRange {
  std::uint64_t begin = 0, size = 0;
};

/// A regular file that is read in parts, from anywhere. Nothing is mapped: a file that becomes shorter
/// meanwhile is an Error(data), and no signal.
class RandomAccessFile {
 public:
  /// Throws Error(data) if there is none, or it is a folder, device or pipe; Error(resource) if it cannot be
  /// opened.
  explicit RandomAccessFile(std::filesystem::path);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return stamp_.size; }  ///< when it was opened
  const FileStamp& stamp() const { return stamp_; }   ///< when it was opened
  FileStamp stamp_now() const;
  /// Fills `out` from byte `begin` on. Throws Error(data) if the file ends before, Error(resource) if it
  /// cannot be read.
  void read(std::uint64_t begin, std::span<std::byte> out) const;
  /// The first bytes, at most so many.
  std::string beginning(std::size_t most) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  FileStamp stamp_;
};

}  // namespace mxtape
