#include "data/hdf5/seal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/files/retried.h"

namespace mxtape {
namespace {

constexpr std::string_view magic = "MXTSEAL1", hdf5_signature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t length_at = 8, hash_at = 16;
using Bytes = std::array<std::byte, seal_bytes>;

Bytes seal_of(std::uint64_t length, XXH128_hash_t hash) {
  Bytes seal;
  std::memcpy(seal.data(), magic.data(), magic.size());
  for (std::size_t i = 0; i < 8; ++i) seal[length_at + i] = std::byte(length >> (8 * i));
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::memcpy(seal.data() + hash_at, canonical.digest, sizeof canonical.digest);
  return seal;
}

std::string digits_of(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string digits;
  for (const unsigned byte : canonical.digest) digits += fmt::format("{:02x}", byte);
  return digits;
}

/// Reads exactly out.size() bytes, or throws.
void read_all(int file, std::span<std::byte> out, const std::string& path) {
  while (!out.empty()) {
    const ssize_t n = retried([&] { return ::read(file, out.data(), out.size()); });
    require(n >= 0, ExitCode::resource, "{}: cannot be read: {}", path, std::strerror(errno));
    require(n > 0, ExitCode::data, "{}: cannot be read to its end: it became shorter meanwhile", path);
    out = out.subspan(std::size_t(n));
  }
}

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
  return digits_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::array<std::byte, seal_bytes> make_seal(std::span<const std::byte> image) {
  return seal_of(image.size(), XXH3_128bits(image.data(), image.size()));
}

std::string verify_seal(const std::filesystem::path& file) {
  const std::string path = file.string();
  // O_NONBLOCK: a pipe would hold the call up until somebody writes into it.
  const int descriptor = retried([&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
  require(descriptor >= 0, errno == ENOENT || errno == ENOTDIR ? ExitCode::data : ExitCode::resource,
          "{}: cannot be opened: {}", path, std::strerror(errno));
  const auto close = [](const int* d) { ::close(*d); };
  const std::unique_ptr<const int, decltype(close)> closer(&descriptor, close);
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  require(known, ExitCode::resource, "{}: cannot be looked at: {}", path, std::strerror(errno));
  require(S_ISREG(status.st_mode), ExitCode::data, "{}: is a folder, device or pipe, want a file", path);
  require(std::size_t(status.st_size) > seal_bytes, ExitCode::data,
          "{}: {} bytes; too short to hold a sealed HDF5 file", path, status.st_size);

  const std::uint64_t length = std::uint64_t(status.st_size) - seal_bytes;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  require(state != nullptr && XXH3_128bits_reset(state.get()) == XXH_OK, ExitCode::resource,
          "no memory for a hash state");
  std::vector<std::byte> buffer(std::size_t(std::min<std::uint64_t>(1 << 20, length)));
  bool begins_as_hdf5 = false;
  for (std::uint64_t done = 0; done < length;) {
    const std::span<std::byte> part(buffer.data(),
                                    std::size_t(std::min<std::uint64_t>(buffer.size(), length - done)));
    read_all(descriptor, part, path);
    if (done == 0)
      begins_as_hdf5 = part.size() >= hdf5_signature.size() &&
                       std::memcmp(part.data(), hdf5_signature.data(), hdf5_signature.size()) == 0;
    XXH3_128bits_update(state.get(), part.data(), part.size());
    done += part.size();
  }
  Bytes found;
  read_all(descriptor, found, path);
  const bool sealed = std::memcmp(found.data(), magic.data(), magic.size()) == 0;
  require(sealed || begins_as_hdf5, ExitCode::data,
          "{}: not a file of mxtape: {} bytes without HDF5's signature and without a seal", path,
          status.st_size);
  require(sealed, ExitCode::data,
          "{}: no seal at the end ({} bytes read); the file was cut, appended to, or not written by mxtape",
          path, status.st_size);
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  require(found == seal_of(length, hash), ExitCode::data,
          "{}: the content hash differs from the one in its seal; the file was altered after it was written",
          path);
  return digits_of(hash);
}

}  // namespace mxtape
