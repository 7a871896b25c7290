#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace mxtape {

/// A regular file that is read in parts, from anywhere. Nothing is mapped: a file that becomes shorter
/// meanwhile is an Error(data), and no signal.
class RandomAccessFile {
 public:
  /// Throws Error(data) if there is none, or it is a folder, device or pipe; Error(resource) if it cannot be
  /// opened.
  explicit RandomAccessFile(std::filesystem::path);
  ~RandomAccessFile();
  RandomAccessFile(RandomAccessFile&&) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }  ///< when it was opened
  /// Fills `out` from byte `begin` on. Throws Error(data) if the file ends before, Error(resource) if it
  /// cannot be read.
  void read(std::uint64_t begin, std::span<std::byte> out) const;
  /// The first bytes, at most so many.
  std::string beginning(std::size_t most) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace mxtape
