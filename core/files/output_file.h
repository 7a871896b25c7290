#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "core/files/unfinished.h"

namespace mxtape {

/// A new file that is written from its beginning to its end. Throws Error(resource) with the path if the disk
/// is full or a name is taken. It is not atomic: make it inside an UnfinishedFolder, or under a temporary
/// name.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte>);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  std::uint64_t written() const { return written_; }
  /// The bytes are on the disk. Nothing can be written afterwards.
  void finish();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
};

/// A folder that appears under its name whole or not at all: its files are made in `<name>.tmp.<pid>` beside
/// it.
class UnfinishedFolder {
 public:
  /// Makes the temporary folder, and the folders above it. Throws Error(usage) if the name is taken,
  /// Error(resource) if nothing can be made there.
  explicit UnfinishedFolder(const std::filesystem::path& name);
  /// Takes it away if it was not finished.
  ~UnfinishedFolder();
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  /// Where the files are to be made.
  const std::filesystem::path& path() const { return temporary_; }
  /// Renames it. A power cut afterwards takes nothing away. Returns the bytes of the files in it.
  std::uint64_t finish();

 private:
  std::filesystem::path name_, temporary_;
  std::optional<Unfinished> removed_by_signals_{};
  bool finished_ = false;
};

/// The same for a file: `<name>.tmp.<pid>` is to be made by an OutputFile, and takes the name's place.
class UnfinishedFile {
 public:
  /// Makes the folders above it.
  explicit UnfinishedFile(const std::filesystem::path& name);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  std::uint64_t finish();

 private:
  std::filesystem::path name_, temporary_;
  std::optional<Unfinished> removed_by_signals_{};
  bool finished_ = false;
};

}  // namespace mxtape
