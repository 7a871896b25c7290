#pragma once
#include <string>
#include <string_view>

namespace mxtape {

/// Normalization form C of a text that is UTF-8, by Unicode 16.0: canonical decomposition, marks in canonical
/// order, canonical composition. Source: Unicode Standard Annex 15; section 3.12 for Hangul.
std::string to_nfc(std::string_view text);

}  // namespace mxtape
