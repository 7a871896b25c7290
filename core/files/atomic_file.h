#pragma once
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// Writes a whole file: "<path>.tmp.<pid>", fsync, rename, fsync of the folder. After a crash, a full disk or
/// a power cut the name holds the old content or the new one, never a part. Makes the folders on the way.
/// Throws Error(resource) with path, needed and free bytes; the temporary file is then gone. A link stays a
/// link: what it leads to is replaced.
void write_atomically(const std::filesystem::path&, std::span<const std::byte> content);
void write_atomically(const std::filesystem::path&, std::string_view content);
/// The same of parts that stand one behind the other.
void write_parts_atomically(const std::filesystem::path&,
                            std::initializer_list<std::span<const std::byte>> parts);

/// Takes away what is under a temporary name at this moment: every Unfinished (core/files/unfinished.h). For
/// a signal handler after which the process ends.
void remove_unfinished() noexcept;
/// After this the names in a folder outlive a power cut. Returns 0, or the errno if that is not known.
int sync_folder(const std::filesystem::path&);

/// What write_atomically would replace or make: the path with its links followed. Throws Error(resource) if
/// that is a folder, device or pipe, whose name a rename would take away.
std::filesystem::path file_to_write(const std::filesystem::path&);

/// The bytes of a regular file. Throws Error(data) if it is missing, a folder, a pipe, or becomes shorter
/// while it is read; Error(resource) if it cannot be read.
std::vector<std::byte> read_whole(const std::filesystem::path&);
std::string read_whole_text(const std::filesystem::path&);

}  // namespace mxtape
