#include "formats/text/text_keys.h"

#include "core/error.h"
#include "core/text/nearest_name.h"
#include "core/text/number.h"

namespace mxtape {
namespace {

template <class T>
struct Choice {
  std::string_view name;
  T value;
};
constexpr Choice<ScaleOverflow> overflows[] = {{"saturate", ScaleOverflow::saturate},
                                               {"nan", ScaleOverflow::nan}};
constexpr Choice<Specials> specials[] = {
    {"none", Specials::none}, {"nan", Specials::nan_only}, {"ieee", Specials::ieee}};
constexpr Choice<TieRule> ties[] = {{"significand", TieRule::significand}, {"code", TieRule::code}};
constexpr Choice<bool> ranges[] = {{"symmetric", false}, {"full", true}};
constexpr Choice<Offset> offsets[] = {
    {"none", Offset::none}, {"fp16", Offset::midpoint}, {"int", Offset::zero_point}};
constexpr Choice<Statistic> statistics[] = {{"amax", Statistic::amax}, {"rms", Statistic::rms}};
constexpr Choice<ScaleRounding> scale_roundings[] = {{"even", ScaleRounding::even},
                                                     {"up", ScaleRounding::up},
                                                     {"down", ScaleRounding::down},
                                                     {"stochastic", ScaleRounding::stochastic}};
constexpr Choice<bool> errors[] = {{"mse", false}, {"mae", true}};

std::string name_in(const auto& choices, auto value) {
  for (const auto& c : choices)
    if (c.value == value) return std::string(c.name);
  return {};
}

[[noreturn]] void refuse(const TextWord& w, std::string_view want) {
  fail(ExitCode::usage, "quantizer '{}': {}={}; want {}", w.text, w.key, w.value, want);
}

auto choose(const TextWord& w, const auto& choices) {
  for (const auto& c : choices)
    if (c.name == w.value) return c.value;
  fail(ExitCode::usage, "quantizer '{}': {}={} is not known{}", w.text, w.key, w.value,
       suggestion(w.value, names_in(choices)));
}

int integer(const TextWord& w, std::string_view digits, int lowest, int highest, std::string_view want) {
  const int number = number_of<int>(digits).value_or(lowest - 1);
  if (number < lowest || number > highest) refuse(w, want);
  return number;
}

BlockShape read_block(const TextWord& w) {
  if (w.value == "axis") return {0, 1};
  if (w.value == "tensor") return {0, 0};
  constexpr std::string_view want = "N, NxM (N along the summed axis; in NxM 0 is all of it), axis or tensor";
  const std::size_t cross = w.value.find('x');
  const int along = integer(w, w.value.substr(0, cross), 0, 1 << 30, want);
  if (cross == std::string_view::npos) {
    if (along == 0) refuse(w, want);
    return {along, 1};
  }
  return {along, integer(w, w.value.substr(cross + 1), 0, 1 << 30, want)};
}

/// The k of "e<k>m0", 2 to 11, else 0.
int exponent_only_bits(std::string_view name) {
  for (int k = 2; k <= 11; ++k)
    if (name == fmt::format("e{}m0", k)) return k;
  return 0;
}

/// A float that stores scales: e<x>m<y>, or ue<x>m<y> without a sign, whose top code is NaN.
std::optional<ElementFormat> parse_scale(std::string_view name) {
  const bool sign = !name.starts_with('u');
  auto format = parse_element(name.substr(sign ? 0 : 1));
  if (!format || format->is_integer() || format->bits() > 16) return {};
  if (!sign && (format->bits() < 3 || format->bits() > 9)) return {};
  if (!sign && format->exponent_bits < 8)
    format = float_format(format->exponent_bits, format->mantissa_bits, Specials::nan_only);
  return format;
}

void read_scale(Quantizer& q, const TextWord& w) {
  q.scale_bits = Quantizer{}.scale_bits;
  q.scale_format = Quantizer{}.scale_format;
  q.scale_sign = true;
  q.outer = OuterScale::tensor;
  if (w.value == "none") {
    q.scale = ScaleKind::none;
  } else if (w.value == "f32") {
    q.scale = ScaleKind::f32;
  } else if (const int bits = exponent_only_bits(w.value); bits != 0) {
    q.scale = ScaleKind::power_of_two;
    q.scale_bits = std::uint8_t(bits);
  } else if (const auto format = parse_scale(w.value)) {
    q.scale = ScaleKind::floating;
    q.scale_format = *format;
    q.scale_sign = !w.value.starts_with('u');
    if (format->exponent_bits == 8) q.outer = OuterScale::none;
  } else {
    refuse(w,
           "e8m0 (or e2m0 to e11m0), a float format of at most 16 bits such as e4m3 or bf16, ue5m3 and "
           "others without a sign, f32 or none");
  }
}

void read_outer(Quantizer& q, const TextWord& w) {
  q.outer_along = 0;
  if (w.value == "none") {
    q.outer = OuterScale::none;
  } else if (w.value == "tensor") {
    q.outer = OuterScale::tensor;
  } else {
    q.outer = OuterScale::group;
    if (w.value != "axis")
      q.outer_along = integer(w, w.value, 1, 1 << 30, "none, tensor, axis or a number of elements");
  }
}
std::string write_outer(const Quantizer& q) {
  if (q.scale != ScaleKind::floating) return {};
  if (q.outer != OuterScale::group) return q.outer == OuterScale::none ? "none" : "tensor";
  return q.outer_along == 0 ? "axis" : fmt::format("{}", q.outer_along);
}

float number(const TextWord& w, float above, float highest, std::string_view want) {
  const float x = number_of<float>(w.value).value_or(above);
  if (!(x > above && x <= highest)) refuse(w, want);
  return x;
}
float read_clip(const TextWord& w) {
  return number(w, 0, 1e6f,
                "how many root mean squares the largest element stands for, above 0 and at most 1e6");
}
float read_alpha(const TextWord& w) {
  return number(w, 0x1p-128f, 2, "a number in (0, 2] whose reciprocal is an f32, so above 2^-128");
}

/// Keeps emax at the exponent of the largest number, which the specials decide.
void set_specials(ElementFormat& f, Specials s) {
  f.specials = s;
  f.emax = std::int8_t(f.max_exponent());
}

/// "auto" is where the format's own definition has it: the exponent of the largest float, OCP's fixed point.
void read_emax(Quantizer& q, const TextWord& w) {
  ElementFormat& f = q.element;
  const bool automatic = w.value == "auto";
  const int emax = automatic ? 0 : integer(w, w.value, -64, 64, "an exponent, -64 to 64, or auto");
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

std::string write_block(const Quantizer& q) {
  if (q.scale == ScaleKind::none) return {};
  if (q.block == BlockShape{0, 1}) return "axis";
  if (q.block == BlockShape{0, 0}) return "tensor";
  return q.block.across == 1 ? fmt::format("{}", q.block.along)
                             : fmt::format("{}x{}", q.block.along, q.block.across);
}

std::string write_scale(const Quantizer& q) {
  if (q.scale == ScaleKind::power_of_two) return fmt::format("e{}m0", int(q.scale_bits));
  if (q.scale == ScaleKind::floating)
    return fmt::format("{}{}", q.scale_sign ? "" : "u", q.scale_format.name());
  return q.scale == ScaleKind::f32 ? "f32" : "none";
}

// In the order in which they apply and are written: specials decide what emax=auto is, the scale what the
// rest means.
const TextKey keys[] = {
    {"specials", false, [](Quantizer& q, const TextWord& w) { set_specials(q.element, choose(w, specials)); },
     [](const Quantizer& q) -> std::string {
       return q.element.is_integer() ? "" : name_in(specials, q.element.specials);
     }},
    {"emax", false, read_emax, write_emax},
    {"range", false, [](Quantizer& q, const TextWord& w) { q.element.full_range = choose(w, ranges); },
     [](const Quantizer& q) { return name_in(ranges, q.element.full_range); }},
    {"tie", false, [](Quantizer& q, const TextWord& w) { q.element.tie = choose(w, ties); },
     [](const Quantizer& q) {
       const bool ambiguous = q.element.mantissa_bits == 0 && !q.element.is_integer();
       return ambiguous ? name_in(ties, q.element.tie) : "";
     }},
    {"scale", false, read_scale, write_scale},
    {"block", false, [](Quantizer& q, const TextWord& w) { q.block = read_block(w); }, write_block},
    {"rule", false, [](Quantizer& q, const TextWord& w) { q.rule = choose(w, scale_rules); },
     [](const Quantizer& q) { return has_exponent(q) ? name_in(scale_rules, q.rule) : ""; }},
    {"overflow", false, [](Quantizer& q, const TextWord& w) { q.overflow = choose(w, overflows); },
     [](const Quantizer& q) { return may_overflow(q) ? name_in(overflows, q.overflow) : ""; }},
    {"scale.round", false,
     [](Quantizer& q, const TextWord& w) { q.scale_rounding = choose(w, scale_roundings); },
     [](const Quantizer& q) {
       return q.scale == ScaleKind::floating ? name_in(scale_roundings, q.scale_rounding) : "";
     }},
    {"outer", false, read_outer, write_outer},
    {"statistic", false, [](Quantizer& q, const TextWord& w) { q.statistic = choose(w, statistics); },
     [](const Quantizer& q) { return q.scale != ScaleKind::none ? name_in(statistics, q.statistic) : ""; }},
    {"clip", false, [](Quantizer& q, const TextWord& w) { q.clip = read_clip(w); },
     [](const Quantizer& q) { return q.statistic == Statistic::rms ? fmt::format("{}", q.clip) : ""; }},
    {"round", false, [](Quantizer& q, const TextWord& w) { q.rounding = choose(w, roundings); },
     [](const Quantizer& q) { return q.is_identity() ? "" : name_in(roundings, q.rounding); }},
    {"sr.bits", false,
     [](Quantizer& q, const TextWord& w) { q.sr_bits = std::uint8_t(integer(w, w.value, 8, 32, "8 to 32")); },
     [](const Quantizer& q) { return q.is_stochastic() ? fmt::format("{}", int(q.sr_bits)) : ""; }},
    {"alpha", false, [](Quantizer& q, const TextWord& w) { q.alpha = read_alpha(w); },
     [](const Quantizer& q) { return fmt::format("{}", q.alpha); }},
    {"offset", false, [](Quantizer& q, const TextWord& w) { q.offset = choose(w, offsets); },
     [](const Quantizer& q) { return name_in(offsets, q.offset); }},
    {"4o6", true, [](Quantizer& q, const TextWord&) { q.four_over_six = true; },
     [](const Quantizer& q) -> std::string { return q.four_over_six ? "4o6" : ""; }},
    {"search", true, [](Quantizer& q, const TextWord&) { q.search = true; },
     [](const Quantizer& q) -> std::string { return q.search ? "search" : ""; }},
    {"error", false, [](Quantizer& q, const TextWord& w) { q.absolute_error = choose(w, errors); },
     [](const Quantizer& q) { return q.four_over_six || q.search ? name_in(errors, q.absolute_error) : ""; }},
    {"eden", true, [](Quantizer& q, const TextWord&) { q.eden = true; },
     [](const Quantizer& q) -> std::string { return q.eden ? "eden" : ""; }},
    {"ema", true, [](Quantizer& q, const TextWord&) { q.ema = true; },
     [](const Quantizer& q) -> std::string { return q.ema ? "ema" : ""; }},
    {"flush", true, [](Quantizer& q, const TextWord&) { q.flush_subnormals = true; },
     [](const Quantizer& q) -> std::string { return q.flush_subnormals ? "flush" : ""; }},
};

}  // namespace

std::span<const TextKey> text_keys() { return keys; }

}  // namespace mxtape
