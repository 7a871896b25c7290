#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace mxtape {

/// A code point and its length in bytes; length 0 where the bytes are not UTF-8.
struct Character {
  char32_t value = 0;
  std::size_t length = 0;
};

/// The character at `position`, which is below text.size(). Overlong forms, surrogates and values above
/// U+10FFFF are not UTF-8. Source: RFC 3629, section 4.
Character character_at(std::string_view text, std::size_t position);

/// The same in a text that is UTF-8: nothing is checked.
inline Character known_character_at(const char* text) {
  const auto byte = [&](int i) { return char32_t(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

/// Where the last character of a text that is UTF-8 and not empty begins.
inline std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

/// The position of the first byte that is not UTF-8, or text.size().
std::size_t first_bad_byte(std::string_view text);
/// Throws Error(data) with that position and byte.
void require_utf8(std::string_view text);

/// Calls body(code point, position in bytes) for each character. Throws as require_utf8.
void for_each_character(std::string_view text, const std::function<void(char32_t, std::size_t)>& body);

void append_utf8(std::string& text, char32_t c);
std::string utf8(char32_t c);

/// Writes `to` for each `from`, from the left on. False as soon as the text would have more than `most`
/// bytes.
bool replace_all(std::string& text, std::string_view from, std::string_view to,
                 std::size_t most = std::string::npos);

/// How many bytes at the end begin a character that more bytes could complete: 0 to 3.
std::size_t unfinished_bytes(std::string_view text);

/// Text of a file as messages show it: control characters and bytes that are not UTF-8 by number, at most
/// 120 bytes, in quotation marks.
std::string shown_text(std::string_view text);

/// Normalization form C of a text that is UTF-8, by Unicode 16.0: canonical decomposition, marks in canonical
/// order, canonical composition. Source: Unicode Standard Annex 15; section 3.12 for Hangul.
std::string to_nfc(std::string_view text);

}  // namespace mxtape
