#include <charconv>
#include <map>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/nearest_name.h"
#include "formats/quantizer.h"

namespace mxtape {
namespace {

template <class T>
struct Choice {
  std::string_view name;
  T value;
};
constexpr Choice<ScaleRule> rules[] = {{"floor", ScaleRule::floor},
                                       {"ceil", ScaleRule::ceil},
                                       {"even", ScaleRule::even},
                                       {"rceil", ScaleRule::rceil},
                                       {"rfloor", ScaleRule::rfloor}};
constexpr Choice<Rounding> roundings[] = {{"even", Rounding::even},
                                          {"away", Rounding::away},
                                          {"down", Rounding::down},
                                          {"zero", Rounding::zero},
                                          {"stochastic", Rounding::stochastic}};
constexpr Choice<ScaleOverflow> overflows[] = {{"saturate", ScaleOverflow::saturate},
                                               {"nan", ScaleOverflow::nan}};
constexpr Choice<Specials> specials[] = {
    {"none", Specials::none}, {"nan", Specials::nan_only}, {"ieee", Specials::ieee}};
constexpr Choice<TieRule> ties[] = {{"significand", TieRule::significand}, {"code", TieRule::code}};
constexpr Choice<bool> ranges[] = {{"symmetric", false}, {"full", true}};
constexpr Choice<bool> offsets[] = {{"none", false}, {"fp16", true}};

template <class T>
std::string_view name_in(std::span<const Choice<T>> choices, T value) {
  for (const auto& c : choices)
    if (c.value == value) return c.name;
  return {};
}

/// One "key=value" word, or a bare flag with an empty value, and the text it stands in.
struct Word {
  std::string_view key, value, text;

  [[noreturn]] void refuse(std::string_view want) const {
    fail(ExitCode::usage, "quantizer '{}': {}={}; want {}", text, key, value, want);
  }
  template <class T, std::size_t n>
  T choose(const Choice<T> (&choices)[n]) const {
    std::vector<std::string_view> known;
    for (const auto& c : choices) {
      if (c.name == value) return c.value;
      known.push_back(c.name);
    }
    fail(ExitCode::usage, "quantizer '{}': {}={} is not known{}", text, key, value, suggestion(value, known));
  }
  int integer(std::string_view digits, int lowest, int highest, std::string_view want) const {
    int number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size() || number < lowest || number > highest)
      refuse(want);
    return number;
  }
};

BlockShape read_block(const Word& w) {
  if (w.value == "axis") return {0, 1};
  if (w.value == "tensor") return {0, 0};
  constexpr std::string_view want = "N, NxM (N along the summed axis; 0: all of it), axis or tensor";
  const std::size_t cross = w.value.find('x');
  const int along = w.integer(w.value.substr(0, cross), 0, 1 << 30, want);
  if (cross == std::string_view::npos) {
    if (along == 0) w.refuse(want);
    return {along, 1};
  }
  return {along, w.integer(w.value.substr(cross + 1), 0, 1 << 30, want)};
}

/// The k of "e<k>m0", else 0.
int exponent_only_bits(std::string_view name) {
  const bool shaped = name.size() == 4 && name[0] == 'e' && name.ends_with("m0");
  return shaped && name[1] >= '2' && name[1] <= '8' ? name[1] - '0' : 0;
}

void read_scale(Quantizer& q, const Word& w) {
  q.scale_bits = Quantizer{}.scale_bits;
  q.scale_format = Quantizer{}.scale_format;
  if (w.value == "none") {
    q.scale = ScaleKind::none;
  } else if (w.value == "f32") {
    q.scale = ScaleKind::f32;
  } else if (const int bits = exponent_only_bits(w.value); bits != 0) {
    q.scale = ScaleKind::power_of_two;
    q.scale_bits = std::uint8_t(bits);
  } else if (const auto format = parse_element(w.value);
             format && !format->is_integer() && format->bits() <= 8) {
    q.scale = ScaleKind::floating;
    q.scale_format = *format;
  } else {
    w.refuse("e8m0 (or e2m0 to e7m0), a float format such as e4m3, f32 or none");
  }
}

float read_range_mult(const Word& w) {
  float number = 0;
  const auto [end, error] = std::from_chars(w.value.data(), w.value.data() + w.value.size(), number);
  if (error != std::errc{} || end != w.value.data() + w.value.size() || !(number > 0 && number <= 1))
    w.refuse("a number in (0, 1]");
  return number;
}

/// Keeps emax at the exponent of the largest number, which the specials decide.
void set_specials(ElementFormat& f, Specials s) {
  f.specials = s;
  f.emax = std::int8_t(f.max_exponent());
}

/// "auto" is where the format's own definition has it: the exponent of the largest float, OCP's fixed point.
void read_emax(Quantizer& q, const Word& w) {
  ElementFormat& f = q.element;
  const bool automatic = w.value == "auto";
  const int emax = automatic ? 0 : w.integer(w.value, -64, 64, "an exponent, -64 to 64, or auto");
  if (f.is_integer()) {
    const bool full = f.full_range;
    f = automatic ? int_format(f.bits()) : int_format(f.bits(), emax);
    f.full_range = full;
  } else {
    f.emax = std::int8_t(automatic ? f.max_exponent() : emax);
  }
}
std::string write_emax(const Quantizer& q) {
  const ElementFormat& f = q.element;
  const int automatic = f.is_integer() ? 0 : f.max_exponent();
  const bool moved = f.is_integer() && f.unit_exponent != int_format(f.bits()).unit_exponent;
  return f.emax == automatic && !moved ? "auto" : fmt::format("{}", int(f.emax));
}

/// A key of the text form: how it changes a quantizer, and how it is written (empty: it means nothing for q).
struct Key {
  std::string_view name;
  bool flag;  ///< stands alone, without a value
  void (*read)(Quantizer&, const Word&);
  std::string (*write)(const Quantizer&);
};

std::string write_block(const Quantizer& q) {
  if (q.scale == ScaleKind::none) return {};
  if (q.block == BlockShape{0, 1}) return "axis";
  if (q.block == BlockShape{0, 0}) return "tensor";
  return q.block.across == 1 ? fmt::format("{}", q.block.along)
                             : fmt::format("{}x{}", q.block.along, q.block.across);
}

std::string write_scale(const Quantizer& q) {
  switch (q.scale) {
    case ScaleKind::none:
      return "none";
    case ScaleKind::power_of_two:
      return fmt::format("e{}m0", int(q.scale_bits));
    case ScaleKind::floating:
      return q.scale_format.name();
    case ScaleKind::f32:
      return "f32";
  }
  return {};
}

bool has_exponent(const Quantizer& q) { return q.scale == ScaleKind::power_of_two; }

// In the order in which they apply and are written: specials decide what emax=auto is, the scale what the
// rest means.
const Key keys[] = {
    {"specials", false, [](Quantizer& q, const Word& w) { set_specials(q.element, w.choose(specials)); },
     [](const Quantizer& q) -> std::string {
       return q.element.is_integer() ? "" : std::string(name_in<Specials>(specials, q.element.specials));
     }},
    {"emax", false, read_emax, write_emax},
    {"range", false, [](Quantizer& q, const Word& w) { q.element.full_range = w.choose(ranges); },
     [](const Quantizer& q) { return std::string(name_in<bool>(ranges, q.element.full_range)); }},
    {"tie", false, [](Quantizer& q, const Word& w) { q.element.tie = w.choose(ties); },
     [](const Quantizer& q) {
       const bool ambiguous = q.element.mantissa_bits == 0 && !q.element.is_integer();
       return ambiguous ? std::string(name_in<TieRule>(ties, q.element.tie)) : "";
     }},
    {"scale", false, read_scale, write_scale},
    {"block", false, [](Quantizer& q, const Word& w) { q.block = read_block(w); }, write_block},
    {"rule", false, [](Quantizer& q, const Word& w) { q.rule = w.choose(rules); },
     [](const Quantizer& q) {
       return has_exponent(q) ? std::string(name_in<ScaleRule>(rules, q.rule)) : "";
     }},
    {"overflow", false, [](Quantizer& q, const Word& w) { q.overflow = w.choose(overflows); },
     [](const Quantizer& q) {
       return has_exponent(q) ? std::string(name_in<ScaleOverflow>(overflows, q.overflow)) : "";
     }},
    {"round", false, [](Quantizer& q, const Word& w) { q.rounding = w.choose(roundings); },
     [](const Quantizer& q) { return std::string(name_in<Rounding>(roundings, q.rounding)); }},
    {"sr.bits", false,
     [](Quantizer& q, const Word& w) { q.sr_bits = std::uint8_t(w.integer(w.value, 8, 32, "8 to 32")); },
     [](const Quantizer& q) { return q.is_stochastic() ? fmt::format("{}", int(q.sr_bits)) : ""; }},
    {"alpha", false, [](Quantizer& q, const Word& w) { q.range_mult = read_range_mult(w); },
     [](const Quantizer& q) { return fmt::format("{}", q.range_mult); }},
    {"offset", false, [](Quantizer& q, const Word& w) { q.asymmetric = w.choose(offsets); },
     [](const Quantizer& q) { return std::string(name_in<bool>(offsets, q.asymmetric)); }},
    {"4o6", true, [](Quantizer& q, const Word&) { q.four_over_six = true; },
     [](const Quantizer& q) -> std::string { return q.four_over_six ? "4o6" : ""; }},
    {"flush", true, [](Quantizer& q, const Word&) { q.flush_subnormals = true; },
     [](const Quantizer& q) -> std::string { return q.flush_subnormals ? "flush" : ""; }},
};

Quantizer read_base(std::string_view name, std::string_view text) {
  std::vector<std::string_view> known;
  for (const Preset& preset : presets) {
    if (preset.name == name) return preset.quantizer;
    known.push_back(preset.name);
  }
  if (const auto element = parse_element(name)) return plain_cast(*element);
  for (const NamedFormat& row : element_formats) known.push_back(row.name);
  fail(ExitCode::usage, "quantizer '{}': no format '{}'{} (also any e<x>m<y>, int<n>)", text, name,
       suggestion(name, known));
}

const Key& find_key(const Word& w) {
  std::vector<std::string_view> known;
  for (const Key& key : keys) {
    if (key.name == w.key) return key;
    known.push_back(key.name);
  }
  fail(ExitCode::usage, "quantizer '{}': unknown word '{}'{}", w.text, w.key, suggestion(w.key, known));
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(" \t"); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \t", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(" \t", end);
  }
  return words;
}

/// Puts fields that mean nothing here to their defaults, so that equal roundings compare equal.
void forget_unused(Quantizer& q) {
  const Quantizer defaults;
  if (q.scale == ScaleKind::none) q.block = defaults.block;
  if (!has_exponent(q)) {
    q.rule = defaults.rule;
    q.overflow = defaults.overflow;
  }
  if (!q.is_stochastic()) q.sr_bits = defaults.sr_bits;
}

}  // namespace

Quantizer parse_quantizer(std::string_view text) {
  const auto words = split(text);
  require(!words.empty(), ExitCode::usage,
          "quantizer: empty; want a format such as mxfp4 or e2m1 block=32 scale=e8m0");
  Quantizer q = read_base(words[0], text);
  std::map<const Key*, Word> given;  // applied in the order of the table
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const bool bare = equals == std::string_view::npos;
    const Word w{words[i].substr(0, equals), bare ? "" : words[i].substr(equals + 1), text};
    const Key& key = find_key(w);
    require(bare == key.flag, ExitCode::usage, "quantizer '{}': '{}' {}", text, words[i],
            key.flag ? "stands alone, without a value" : "needs a value");
    require(given.emplace(&key, w).second, ExitCode::usage, "quantizer '{}': '{}' is given twice", text,
            w.key);
  }
  for (const auto& [key, word] : given) key->read(q, word);
  for (const auto& [key, word] : given)
    require(!key->write(q).empty(), ExitCode::usage, "quantizer '{}': '{}' has no effect here{}", text,
            key->name, q.scale == ScaleKind::none ? "; is scale=e8m0 missing?" : "");
  forget_unused(q);
  const std::string contradiction = q.contradiction();
  require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", text, contradiction);
  return q;
}

std::string to_text(const Quantizer& q) {
  std::string best;
  const auto try_base = [&](std::string_view name, Quantizer told) {  // told: what the text so far parses to
    std::string text(name);
    for (const Key& key : keys) {
      const std::string value = key.write(q);
      if (value == key.write(told)) continue;
      if (value.empty()) return;  // the base says something that q does not
      text += key.flag ? fmt::format(" {}", key.name) : fmt::format(" {}={}", key.name, value);
      key.read(told, Word{key.name, value, text});
    }
    if (best.empty() || text.size() < best.size()) best = text;
  };
  const std::string element = q.element.name();
  for (const Preset& preset : presets)
    if (preset.quantizer.element.name() == element) try_base(preset.name, preset.quantizer);
  if (const auto plain = parse_element(element)) try_base(element, plain_cast(*plain));
  return best;
}

}  // namespace mxtape
