#include "data/content_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "core/error.h"

namespace mxtape {
ContentHash::ContentHash() : state_(XXH3_createState(), [](XXH3_state_s* state) { XXH3_freeState(state); }) {
  require(state_ && XXH3_128bits_reset(state_.get()) == XXH_OK, ExitCode::resource,
          "no memory for a hash state");
}

void ContentHash::add(std::span<const std::byte> part) {
  XXH3_128bits_update(state_.get(), part.data(), part.size());
}

void ContentHash::add(const RandomAccessFile& file, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> buffer(1 << 20);
  while (begin < end) {
    const auto part =
        std::span(buffer).first(std::size_t(std::min<std::uint64_t>(buffer.size(), end - begin)));
    file.read(begin, part);
    add(part);
    begin += part.size();
  }
}

std::array<std::byte, 16> ContentHash::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  return std::bit_cast<std::array<std::byte, 16>>(canonical);
}

std::string ContentHash::digits() const { return digits_of(digest()); }

std::string digits_of(const std::array<std::byte, 16>& digest) {
  std::string digits;
  for (const std::byte byte : digest) digits += fmt::format("{:02x}", unsigned(byte));
  return digits;
}

std::string content_hash(std::span<const std::byte> bytes) {
  ContentHash hash;
  hash.add(bytes);
  return hash.digits();
}

}  // namespace mxtape
