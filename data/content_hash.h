#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/files/random_access.h"

struct XXH3_state_s;

namespace mxtape {

/// XXH3-128 of bytes that come in parts.
class ContentHash {
 public:
  ContentHash();
  void add(std::span<const std::byte> part);
  /// Bytes [begin, end) of a file.
  void add(const RandomAccessFile&, std::uint64_t begin, std::uint64_t end);
  std::array<std::byte, 16> digest() const;  ///< canonical: big-endian
  std::string digits() const;                ///< 32, hexadecimal: what `xxhsum -H2` prints

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

/// ContentHash::digits() of a digest.
std::string digits_of(const std::array<std::byte, 16>& digest);
/// ContentHash::digits() of these.
std::string content_hash(std::span<const std::byte> bytes);

}  // namespace mxtape
