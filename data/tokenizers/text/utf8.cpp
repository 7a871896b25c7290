#include "data/tokenizers/text/utf8.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text/printable.h"

namespace mxtape {

Character character_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return char32_t(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(position);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >> 5 == 0b110 ? 2 : lead >> 4 == 0b1110 ? 3 : lead >> 3 == 0b11110 ? 4 : 0;
  if (length == 0 || position + length > text.size()) return {};
  char32_t value = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(position + i) >> 6 != 0b10) return {};
    value = value << 6 | (byte(position + i) & 0x3f);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (value < smallest[length] || surrogate || value > 0x10ffff) return {};
  return {value, length};
}

std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    std::uint64_t eight;
    if (position + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + position, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        position += 8;
        continue;
      }
    }
    const std::size_t length = character_at(text, position).length;
    if (length == 0) return position;
    position += length;
  }
  return text.size();
}

void require_utf8(std::string_view text) {
  const std::size_t bad = first_bad_byte(text);
  require(bad == text.size(), ExitCode::data, "byte {} (0x{:02x}) is not UTF-8", bad,
          bad < text.size() ? static_cast<unsigned char>(text[bad]) : 0);
}

void for_each_character(std::string_view text, const std::function<void(char32_t, std::size_t)>& body) {
  for (std::size_t position = 0; position < text.size();) {
    const auto [value, length] = character_at(text, position);
    require(length != 0, ExitCode::data, "byte {} (0x{:02x}) is not UTF-8", position,
            static_cast<unsigned char>(text[position]));
    body(value, position);
    position += length;
  }
}

void append_utf8(std::string& text, char32_t c) {
  const auto tail = [&](int shift) { text += char(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) {
    text += char(c);
  } else if (c < 0x800) {
    text += char(0xc0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    text += char(0xe0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    text += char(0xf0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string utf8(char32_t c) {
  std::string text;
  append_utf8(text, c);
  return text;
}

bool replace_all(std::string& text, std::string_view from, std::string_view to, std::size_t most) {
  if (text.find(from) == text.npos) return true;
  std::string result;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    result.append(text, at, found - at);
    if (found == text.npos) break;
    result += to;
    at = found + from.size();
    if (result.size() > most) return false;
  }
  text = std::move(result);
  return text.size() <= most;
}

std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const std::size_t begin = text.size() - back;
    const auto lead = static_cast<unsigned char>(text[begin]);
    if (lead < 0x80) return 0;
    if (lead < 0xc0) continue;
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (back >= length) return 0;
    // The lowest and the highest bytes that may follow: if neither completes it, nothing does.
    std::string low(text.substr(begin)), high(low);
    if (back == 1) {
      low += lead == 0xe0 ? '\xa0' : lead == 0xf0 ? '\x90' : '\x80';
      high += lead == 0xed ? '\x9f' : lead == 0xf4 ? '\x8f' : '\xbf';
    }
    low.resize(length, '\x80');
    high.resize(length, '\xbf');
    return character_at(low, 0).length || character_at(high, 0).length ? back : 0;
  }
  return 0;
}

std::string shown_text(std::string_view text) {
  constexpr std::size_t longest = 120;
  std::string result = "'";
  std::size_t position = 0;
  while (position < text.size() && result.size() < longest) {
    const std::size_t length = character_at(text, position).length;
    if (length == 0)
      result += fmt::format("<0x{:02X}>", static_cast<unsigned char>(text[position]));
    else
      result += printable(text.substr(position, length));
    position += std::max<std::size_t>(length, 1);
  }
  return result + (position < text.size() ? "...'" : "'");
}

}  // namespace mxtape
