#include "core/text/short_lines.h"

#include <algorithm>

namespace mxtape {
namespace {

bool continues_a_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }  // of UTF-8

std::string short_line(std::string_view line) {
  constexpr std::size_t longest = 2000, begin = 1000, end = 500;
  if (line.size() <= longest) return std::string(line);
  std::size_t first = begin, last = line.size() - end;
  while (first > 0 && continues_a_character(line[first])) --first;
  while (last < line.size() && continues_a_character(line[last])) ++last;
  return std::string(line.substr(0, first)) + " ... (" + std::to_string(last - first) + " bytes more) ... " +
         std::string(line.substr(last));
}

}  // namespace

std::string with_short_lines(std::string_view message) {
  std::string text;
  for (std::size_t at = 0; at <= message.size();) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    text += short_line(message.substr(at, end - at));
    if (end < message.size()) text += '\n';
    at = end + 1;
  }
  return text;
}

std::string json_reason(const std::exception& error) {
  constexpr std::size_t most = 300;
  std::string_view text = error.what();
  if (const auto end = text.find("] "); text.starts_with("[json.") && end != std::string_view::npos)
    text.remove_prefix(end + 2);
  if (text.size() <= most) return std::string(text);
  std::size_t cut = most;
  while (cut > 0 && continues_a_character(text[cut])) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

}  // namespace mxtape
