#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/files/descriptor.h"
#include "core/files/unfinished.h"

namespace mxtape {

/// A new file that is written from its beginning to its end. Throws Error(resource) with the path if the disk
/// is full or a name is taken. It is not atomic: make it inside an UnfinishedFolder, or under a temporary
/// name.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path);

  void write(std::span<const std::byte>);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  std::uint64_t written() const { return written_; }
  /// The bytes are on the disk. Nothing can be written afterwards.
  void finish();

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t written_ = 0;
};

/// What appears under its name whole or not at all: it is made at path(), "<name>.tmp.<pid>" beside it, and
/// taken away if it is not finished.
class TemporaryName {
 public:
  const std::filesystem::path& path() const { return temporary_; }

 protected:
  explicit TemporaryName(std::filesystem::path name);
  ~TemporaryName();
  TemporaryName(const TemporaryName&) = delete;
  /// `result` of renaming it: 0 or -1. A power cut afterwards takes nothing away.
  void finish(int result, const char* kind);

  const std::filesystem::path name_;

 private:
  const std::filesystem::path temporary_;
  const Unfinished removed_by_signals_;
  bool finished_ = false;
};

class UnfinishedFolder : public TemporaryName {
 public:
  /// Makes the temporary folder, and the folders above it. Throws Error(usage) if the name is taken,
  /// Error(resource) if nothing can be made there.
  explicit UnfinishedFolder(const std::filesystem::path& name);
  /// Renames it. Returns the bytes of the files in it.
  std::uint64_t finish();
};

/// The same for a file that an OutputFile makes. It takes the name's place.
class UnfinishedFile : public TemporaryName {
 public:
  /// Makes the folders above it.
  explicit UnfinishedFile(const std::filesystem::path& name);
  std::uint64_t finish();
};

}  // namespace mxtape
