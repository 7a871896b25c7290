#include "formats/straight_through.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 3> kind_names{"identity", "mask", "dge"};
constexpr std::array<std::string_view, 3> words{"ste", "k", "most"};

SteKind parse_kind(std::string_view text) {
  for (std::size_t i = 0; i < kind_names.size(); ++i)
    if (text == kind_names[i]) return SteKind(i);
  fail(ExitCode::usage, "straight-through: unknown ste={}{}", text, suggestion(text, kind_names));
}

/// A number above `low`, at most 1000.
float parse_number(std::string_view key, std::string_view text, float low) {
  float value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  require(end.ec == std::errc{} && end.ptr == text.data() + text.size() && value > low && value <= 1000,
          ExitCode::usage, "straight-through: {}={}; want a number above {}, at most 1000", key, text, low);
  return value;
}

}  // namespace

StraightThrough parse_straight_through(std::string_view text) {
  StraightThrough ste;
  std::array<bool, words.size()> seen{};
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) break;
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    const auto value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
    const auto found = std::find(words.begin(), words.end(), key);
    require(found != words.end(), ExitCode::usage, "straight-through: unknown word '{}'{}", word,
            suggestion(key, words));
    bool& twice = seen[std::size_t(found - words.begin())];
    require(!twice, ExitCode::usage, "straight-through: '{}' is given twice", key);
    twice = true;
    if (key == "ste") ste.kind = parse_kind(value);
    if (key == "k") ste.k = parse_number(key, value, 1);
    if (key == "most") ste.most = parse_number(key, value, 0);
  }
  require(seen[0], ExitCode::usage, "straight-through: no kind; want ste=identity, ste=mask or ste=dge");
  for (std::size_t i = 1; i < words.size(); ++i)
    require(!seen[i] || ste.kind == SteKind::dge, ExitCode::usage,
            "straight-through: '{}=' has no effect without ste=dge", words[i]);
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

void straight_through_reference(float* dx, const float* dy, const float* x, std::int64_t rows,
                                std::int64_t cols, Axis axis, const Quantizer& q, const StraightThrough& ste,
                                const DrawKey& key) {
  const BlockRule rule = block_rule(q);
  StraightThroughSink sink{dx, dy, x, rule, ste};
  quantize_blocks(
      x, rows, cols, axis, q, [&](std::int64_t i) { return draw_bits(key, std::uint64_t(i), q.sr_bits); },
      sink);
}

}  // namespace mxtape
