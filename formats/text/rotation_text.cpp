#include "formats/rotation.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 4> signs_names{"none", "run", "step", "call"};
constexpr std::array<std::string_view, 2> words{"hadamard", "signs"};

std::int32_t parse_size(std::string_view text) {
  std::int32_t size = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), size);
  const bool number = end.ec == std::errc{} && end.ptr == text.data() + text.size();
  require(number && (size == 0 || (size >= 2 && size <= 256 && (size & (size - 1)) == 0)), ExitCode::usage,
          "rotation: hadamard={}; want 0 (none) or a power of two from 2 to 256", text);
  return size;
}

SignsPer parse_signs(std::string_view text) {
  for (std::size_t i = 0; i < signs_names.size(); ++i)
    if (text == signs_names[i]) return SignsPer(i);
  fail(ExitCode::usage, "rotation: unknown signs={}{}", text, suggestion(text, signs_names));
}

}  // namespace

Rotation parse_rotation(std::string_view text) {
  Rotation rotation;
  bool has_size = false, has_signs = false;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) break;
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    const auto value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
    require(key == words[0] || key == words[1], ExitCode::usage, "rotation: unknown word '{}'{}", word,
            suggestion(key, words));
    bool& seen = key == words[0] ? has_size : has_signs;
    require(!seen, ExitCode::usage, "rotation: '{}' is given twice", key);
    seen = true;
    if (key == words[0])
      rotation.size = parse_size(value);
    else
      rotation.signs = parse_signs(value);
  }
  require(has_size, ExitCode::usage, "rotation: no size; want hadamard=<size> signs=none|run|step|call");
  return rotation;
}

std::string to_text(const Rotation& r) {
  if (r == Rotation{}) return "hadamard=0";
  return fmt::format("hadamard={} signs={}", r.size, signs_names[std::size_t(r.signs)]);
}

}  // namespace mxtape
