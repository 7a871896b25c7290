#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace mxtape {

/// What an error of the JSON library says, without "[json.exception.parse_error.101] " in front and without
/// more than a line of the text that it quotes.
inline std::string json_reason(const std::exception& error) {
  constexpr std::size_t most = 300;
  std::string_view text = error.what();
  if (const auto end = text.find("] "); text.starts_with("[json.") && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  if (text.size() <= most) return std::string(text);
  std::size_t cut = most;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;  // inside a character
  return std::string(text.substr(0, cut)) + "...";
}

}  // namespace mxtape
