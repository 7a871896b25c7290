#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace mxtape {

/// Writes a whole file: `<path>.tmp.<pid>`, fsync, rename, fsync of the folder. After a crash, a full disk or
/// a power cut the name holds the old content or the new one, never a part. Makes the folders on the way.
/// Throws Error(resource) with path, needed and free bytes; the temporary file is then gone.
void write_atomically(const std::filesystem::path&, std::span<const std::byte> content);
void write_atomically(const std::filesystem::path&, std::string_view content);

/// The bytes of a regular file. Throws Error(data) if it is missing, a folder, or changes while it is read;
/// Error(resource) if it may not be read.
std::vector<std::byte> read_whole(const std::filesystem::path&);

}  // namespace mxtape
