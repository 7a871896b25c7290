#include "formats/element.h"

#include <fmt/format.h>

#include <charconv>

namespace mxtape {
namespace {

/// Reads a decimal number of one or two digits and removes it from the front of `text`; -1 if there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + std::min<std::size_t>(text.size(), 2), value);
  if (error != std::errc{} || value < 0) return -1;
  text.remove_prefix(std::size_t(end - text.data()));
  return value;
}

}  // namespace

std::optional<ElementFormat> parse_element(std::string_view name) {
  for (const NamedFormat& row : element_formats)
    if (row.name == name) return row.format;
  std::string_view rest = name;
  if (rest.starts_with("int")) {
    rest.remove_prefix(3);
    const int bits = take_number(rest);
    if (rest.empty() && bits >= 2 && bits <= 24 && name == int_format(bits).name()) return int_format(bits);
  } else if (rest.starts_with("e")) {
    rest.remove_prefix(1);
    const int exponent_bits = take_number(rest);
    if (!rest.starts_with("m")) return {};
    rest.remove_prefix(1);
    const int mantissa_bits = take_number(rest);
    const int fewest = exponent_bits == 8 ? 1 : 0;
    if (name != fmt::format("e{}m{}", exponent_bits, mantissa_bits)) return {};
    if (exponent_bits >= 1 && exponent_bits <= 8 && mantissa_bits >= fewest && mantissa_bits <= 22)
      return float_format(exponent_bits, mantissa_bits, exponent_bits == 8 ? Specials::ieee : Specials::none);
  }
  return {};
}

std::string ElementFormat::name() const {
  if (is_integer()) return fmt::format("int{}", bits());
  for (const NamedFormat& row : element_formats)
    if (row.format.exponent_bits == exponent_bits && row.format.mantissa_bits == mantissa_bits &&
        (row.format.specials == specials || row.name[0] == 'e'))
      return std::string(row.name);
  return fmt::format("e{}m{}", int(exponent_bits), int(mantissa_bits));
}

}  // namespace mxtape
