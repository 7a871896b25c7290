#include "formats/rotation.h"

#include "core/text/number.h"
#include "formats/text/text_words.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 4> signs_names{"none", "run", "step", "call"};
constexpr std::array<std::string_view, 2> turn_keys{"hadamard", "signs"};

std::int32_t parse_size(std::string_view text) {
  const std::int32_t size = number_of<std::int32_t>(text).value_or(-1);
  require(size == 0 || (size >= 2 && size <= 256 && (size & (size - 1)) == 0), ExitCode::usage,
          "rotation: hadamard={}; want 0 (none) or a power of two from 2 to 256", text);
  return size;
}

}  // namespace

Rotation parse_rotation(std::string_view text) {
  Rotation rotation;
  const auto seen = read_words("rotation", text, turn_keys, [&](std::size_t i, std::string_view value) {
    if (i == 0)
      rotation.size = parse_size(value);
    else
      rotation.signs = SignsPer(index_of("rotation", "signs", value, signs_names));
  });
  require(seen[0], ExitCode::usage, "rotation: no size; want hadamard=<size> signs=none|run|step|call");
  return rotation;
}

std::string to_text(const Rotation& r) {
  if (r == Rotation{}) return "hadamard=0";
  return fmt::format("hadamard={} signs={}", r.size, signs_names[std::size_t(r.signs)]);
}

}  // namespace mxtape
