#pragma once
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "core/files/random_access.h"
#include "data/content_hash.h"

namespace mxtape {

/// A seal is 32 bytes after the end of an HDF5 image: "MXTSEAL1", the image's length (64-bit little-endian)
/// and its XXH3-128 hash (canonical, big-endian). HDF5 itself reads up to the end that its superblock names,
/// so h5dump and h5py open sealed files as any other. The seal is checked before HDF5 parses a byte: its
/// checksums cover either data or metadata, never both, and its parser is no place for altered input.
inline constexpr std::size_t seal_bytes = 32;

std::array<std::byte, seal_bytes> make_seal(std::span<const std::byte> image);

/// Reads the whole file once and returns its content hash. Throws Error(data) with what was found and wanted
/// if it is missing, has no seal, or a length or a bit differs from what was written; Error(resource) if it
/// cannot be read.
std::string verify_seal(const RandomAccessFile&);
std::string verify_seal(const std::filesystem::path&);
/// The content hash that the file's last bytes name. Nothing is verified.
std::string sealed_hash(const std::filesystem::path&);

}  // namespace mxtape
