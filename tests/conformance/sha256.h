#pragma once
#include <span>
#include <string>

namespace mxtape::conformance {

/// The SHA-256 digest in 64 hexadecimal digits, as sha256sum prints it. Source: FIPS 180-4, section 6.2.
std::string sha256(std::span<const char> bytes);

}  // namespace mxtape::conformance
