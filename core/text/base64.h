#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace mxtape {

/// RFC 4648, section 4, padded.
std::string to_base64(std::string_view bytes);
/// None for signs outside the alphabet, a length that is no multiple of 4, or padding that is not at the end.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace mxtape
