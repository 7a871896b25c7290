#include "data/hdf5/seal.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/error.h"

namespace mxtape {
namespace {

constexpr std::string_view magic = "MXTSEAL1", hdf5_signature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t length_at = 8, hash_at = 16;
using Bytes = std::array<std::byte, seal_bytes>;

Bytes seal_of(std::uint64_t length, const ContentHash& hash) {
  Bytes seal;
  std::memcpy(seal.data(), magic.data(), magic.size());
  for (std::size_t i = 0; i < 8; ++i) seal[length_at + i] = std::byte(length >> (8 * i));
  std::ranges::copy(hash.digest(), seal.begin() + hash_at);
  return seal;
}

}  // namespace

std::array<std::byte, seal_bytes> make_seal(std::span<const std::byte> image) {
  ContentHash hash;
  hash.add(image);
  return seal_of(image.size(), hash);
}

std::string verify_seal(const RandomAccessFile& file) {
  const std::string path = file.path().string();
  require(file.size() > seal_bytes, ExitCode::data, "{}: {} bytes; too short to hold a sealed HDF5 file",
          path, file.size());
  const std::uint64_t length = file.size() - seal_bytes;
  ContentHash hash;
  hash.add(file, 0, length);
  Bytes found;
  file.read(length, found);
  const bool sealed = std::memcmp(found.data(), magic.data(), magic.size()) == 0;
  require(sealed || file.beginning(hdf5_signature.size()) == hdf5_signature, ExitCode::data,
          "{}: not a file of mxtape: {} bytes without HDF5's signature and without a seal", path,
          file.size());
  require(sealed, ExitCode::data,
          "{}: no seal at the end ({} bytes read); the file was cut, appended to, or not written by mxtape",
          path, file.size());
  require(found == seal_of(length, hash), ExitCode::data,
          "{}: the content hash differs from the one in its seal; the file was altered after it was written",
          path);
  return hash.digits();
}

std::string sealed_hash(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  std::array<std::byte, seal_bytes - hash_at> hash{};
  if (file.size() >= hash.size()) file.read(file.size() - hash.size(), hash);
  return digits_of(hash);
}

std::string verify_seal(const std::filesystem::path& path) { return verify_seal(RandomAccessFile(path)); }

}  // namespace mxtape
