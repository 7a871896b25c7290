#include <fmt/ranges.h>

#include <cstdlib>
#include <limits>

#include "recipes/knobs.h"

namespace mxtape {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04X}", int(c));
    else
      out += c;
  }
  return out + "\"";
}

/// The parser reads decimals as f64 and narrows them, so this tries the same way back.
std::string shortest(float x) {
  for (int digits = 1;; ++digits) {
    const double decimal = std::strtod(fmt::format("{:.{}g}", double(x), digits).c_str(), nullptr);
    if (float(decimal) != x) continue;
    const std::string text = fmt::format("{}", decimal);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
}

std::string interval_text(const Interval& i) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (i.low == -infinity && i.high == infinity) return "";
  if (i.high == infinity) return fmt::format(" {} {}", i.low_is_out ? ">" : ">=", i.low);
  const std::string high = i.high == 0x1p63 ? "2^63 - 1" : fmt::format("{}", i.high);
  return fmt::format(" in {}{}, {}{}", i.low_is_out ? '(' : '[', i.low, high, i.high_is_out ? ')' : ']');
}

}  // namespace

std::string wanted_text(const Knob& knob) {
  const auto* interval = std::get_if<Interval>(&knob.accepts);
  const auto* text = std::get_if<TextCheck>(&knob.accepts);
  switch (knob.field.index()) {
    case 0:
    case 1:
      return "an integer" + interval_text(*interval);
    case 2:
      return "a number" + interval_text(*interval);
    case 3:
      return "true or false";
    case 4:
      return std::string(text->wanted);
    case 5:
      return fmt::format("one of: {}", fmt::join(std::get<Choice>(knob.field).names, " "));
    case 6:
      return "a list of texts";
    default: {
      std::string text = "an integer" + interval_text(*interval);
      for (const auto& [name, value] : std::get<NamedInteger>(knob.field).names)
        text += fmt::format(" or \"{}\"", name);
      return text;
    }
  }
}

std::string value_text(const Knob& knob) {
  struct Writer {
    std::string operator()(const std::int64_t* x) const { return fmt::format("{}", *x); }
    std::string operator()(const std::uint64_t* x) const { return fmt::format("{}", *x); }
    std::string operator()(const float* x) const { return shortest(*x); }
    std::string operator()(const bool* x) const { return *x ? "true" : "false"; }
    std::string operator()(const std::string* x) const { return in_quotes(*x); }
    std::string operator()(const Choice& x) const { return in_quotes(x.names[*x.value]); }
    std::string operator()(const std::vector<std::string>* x) const {
      std::vector<std::string> items;
      for (const auto& item : *x) items.push_back(in_quotes(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    std::string operator()(const NamedInteger& x) const {
      for (const auto& [name, value] : x.names)
        if (value == *x.value) return in_quotes(name);
      return fmt::format("{}", *x.value);
    }
  };
  return std::visit(Writer{}, knob.field);
}

}  // namespace mxtape
