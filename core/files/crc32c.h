#pragma once
#include <cstdint>
#include <span>

namespace mxtape {

/// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78, RFC 3720 appendix B.4), as TFRecord files use it.
std::uint32_t crc32c(std::span<const std::uint8_t> bytes);
/// TFRecord's mask: a CRC that is stored beside its data must not be its own CRC.
std::uint32_t masked_crc32c(std::span<const std::uint8_t> bytes);

}  // namespace mxtape
