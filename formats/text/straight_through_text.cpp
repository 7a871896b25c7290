#include "core/text/number.h"
#include "formats/straight_through.h"
#include "formats/text/text_words.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 3> kind_names{"identity", "mask", "dge"};
constexpr std::array<std::string_view, 3> ste_keys{"ste", "k", "most"};

/// A number above `low`, at most 1000.
float parse_number(std::string_view key, std::string_view text, float low) {
  const float value = number_of<float>(text).value_or(low);
  require(value > low && value <= 1000, ExitCode::usage,
          "straight-through: {}={}; want a number above {}, at most 1000", key, text, low);
  return value;
}

}  // namespace

StraightThrough parse_straight_through(std::string_view text) {
  StraightThrough ste;
  const auto seen = read_words("straight-through", text, ste_keys, [&](std::size_t i, std::string_view v) {
    if (i == 0) ste.kind = SteKind(index_of("straight-through", "ste", v, kind_names));
    if (i == 1) ste.k = parse_number("k", v, 1);
    if (i == 2) ste.most = parse_number("most", v, 0);
  });
  require(seen[0], ExitCode::usage, "straight-through: no kind; want ste=identity, ste=mask or ste=dge");
  for (std::size_t i = 1; i < ste_keys.size(); ++i)
    require(!seen[i] || ste.kind == SteKind::dge, ExitCode::usage,
            "straight-through: '{}=' has no effect without ste=dge", ste_keys[i]);
  return ste;
}

std::string to_text(const StraightThrough& ste) {
  std::string text = fmt::format("ste={}", kind_names[std::size_t(ste.kind)]);
  if (ste.kind != SteKind::dge) return text;
  const StraightThrough plain;
  if (ste.k != plain.k) text += fmt::format(" k={}", ste.k);
  if (ste.most != plain.most) text += fmt::format(" most={}", ste.most);
  return text;
}

}  // namespace mxtape
