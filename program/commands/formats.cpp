#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "formats/codec/codec.h"
#include "formats/telemetry/statistics.h"
#include "formats/text/peer_names.h"
#include "program/command.h"
#include "program/json/format_json.h"

namespace mxtape {
namespace {

void print(const std::string& line) { std::puts(line.c_str()); }

/// "2^-9" for powers of two that are no short decimal, else the decimal.
std::string number_text(double value) {
  int exponent = 0;
  const bool power = std::frexp(value, &exponent) == 0.5;
  return power && exponent < 1 - 3 ? fmt::format("2^{}", exponent - 1) : fmt::format("{:.6g}", value);
}

std::string specials_text(const ElementFormat& f) {
  switch (f.specials) {
    case Specials::none:
      return "-";
    case Specials::nan_only:
      return "NaN";
    case Specials::ieee:
      return "Inf NaN";
  }
  return "";
}

void print_elements() {
  print("Elements");
  print(fmt::format("  {:<6} {:>4} {:>10} {:>12} {:>11} {:>14} {:>10}  {}", "name", "bits", "exponents",
                    "largest", "min normal", "min subnormal", "codes", "specials"));
  for (const NamedFormat& row : element_formats) {
    const ElementFormat& f = row.format;
    const std::string exponents =
        f.is_integer() ? "-" : fmt::format("{}..{}", f.min_exponent(), f.max_exponent());
    const std::string normal = f.is_integer() ? "-" : number_text(std::ldexp(1.0, f.min_exponent()));
    const std::string subnormal =
        f.mantissa_bits == 0 && !f.is_integer() ? "-" : number_text(double(f.min_positive()));
    const std::string codes = f.bits() < 32 ? fmt::format("{}", 1 << f.bits()) : "2^32";
    print(fmt::format("  {:<6} {:>4} {:>10} {:>12} {:>11} {:>14} {:>10}  {}", row.name, f.bits(), exponents,
                      number_text(f.max_finite()), normal, subnormal, codes, specials_text(f)));
  }
  print("  also any e<x>m<y> (x 1 to 8, y up to 22; no code reserved) and int<n> (n 2 to 24)\n");
}

std::string scale_text(const Quantizer& q) {
  switch (q.scale) {
    case ScaleKind::none:
      return "-";
    case ScaleKind::power_of_two:
      return fmt::format("e{}m0", int(q.scale_bits));
    case ScaleKind::floating:
      return q.scale_format.name() + " + f32";
    case ScaleKind::f32:
      return "f32";
  }
  return "";
}

/// The presets, and plain casts to the formats that a GEMM computes in.
std::vector<Preset> listed_formats() {
  std::vector<Preset> all(presets.begin(), presets.end());
  for (const std::string_view name : {"f32", "bf16", "f16"}) all.push_back({name, parse_quantizer(name)});
  return all;
}

void print_blocks() {
  print("Formats with block scales, and plain casts");
  print(fmt::format("  {:<11} {:<8} {:>6} {:<11} {:>12} {:>10} {:>13} {:>8}  {}", "name", "element", "block",
                    "scale", "bits/element", "bits/block", "saved vs f32", "vs bf16", "GEMM operand"));
  for (const auto& [name, q] : listed_formats()) {
    const std::string block = q.scale == ScaleKind::none ? "-" : fmt::format("{}", q.block.along);
    const auto bits = bits_per_block(q);
    print(fmt::format("  {:<11} {:<8} {:>6} {:<11} {:>12.4g} {:>10} {:>12.1f}% {:>7.1f}%  {}", name,
                      q.element.name(), block, scale_text(q), q.bits_per_element(),
                      bits ? fmt::format("{}", *bits) : "-", 100 * memory_saved(q, 32),
                      100 * memory_saved(q, 16), name_of(q.operand_dtype())));
  }
}

void print_peer_names() {
  print("\nOther projects' names that are understood");
  for (const PeerName& row : peer_names)
    if (row.is_exact()) print(fmt::format("  {:<18} {}", row.name, row.ours));
}

Json json_of(const NamedFormat& row) {
  const ElementFormat& f = row.format;
  Json json{{"name", row.name}, {"bits", f.bits()}};
  put_numbers(json, f);
  json["codes"] = std::int64_t{1} << f.bits();
  json["specials"] = Json::array();
  if (f.specials == Specials::ieee) json["specials"].push_back("inf");
  if (f.specials != Specials::none) json["specials"].push_back("nan");
  return json;
}

Json json_of(const Preset& row) {
  const Quantizer& q = row.quantizer;
  Json json{{"name", row.name}, {"element", q.element.name()}};
  if (q.scale == ScaleKind::none) {
    put_unknown(json, "block", "no blocks");
    put_unknown(json, "scale", "a plain cast");
  } else {
    json["block"] = q.block.along;
    json["scale"] = scale_text(q);
  }
  put_storage(json, q);
  json["gemm_operand"] = name_of(q.operand_dtype());
  return json;
}

void print_formats_json() {
  Json json{{"elements", Json::array()}, {"formats", Json::array()}, {"peer_names", Json::array()}};
  for (const NamedFormat& row : element_formats) json["elements"].push_back(json_of(row));
  for (const Preset& row : listed_formats()) json["formats"].push_back(json_of(row));
  for (const PeerName& row : peer_names)
    if (row.is_exact()) json["peer_names"].push_back({{"name", row.name}, {"format", row.ours}});
  print_json(json);
}

/// In lines, exactly.
void print_values(const ElementFormat& f) {
  if (f.bits() > most_listed_bits) return print("values       more than are listed");
  const auto values = values_of(f);
  const bool mirrored = values.front() == -values.back();
  std::string line =
      fmt::format("values       {}:{}", values.size(), mirrored ? " 0, and with either sign" : "");
  constexpr std::size_t width = 100;
  for (const float value : values) {
    if (mirrored && value <= 0) continue;
    const std::string text = fmt::format(" {}", value);
    if (line.size() + text.size() > width) {
      print(line);
      line = std::string(12, ' ');
    }
    line += text;
  }
  print(line);
}

void print_one(const std::string& text, bool as_json) {
  const Quantizer q = parse_quantizer(text);
  const ElementFormat& f = q.element;
  if (as_json) {
    Json json = json_of(Preset{text, q});
    json["meaning"] = to_text(q);
    put_numbers(json, f);
    return print_json(json);
  }
  const auto bits = bits_per_block(q);
  print(fmt::format("format       {}", to_text(q)));
  print(fmt::format("element      {}, {} bits, special codes: {}", f.name(), f.bits(), specials_text(f)));
  print(fmt::format("scale        {}", scale_text(q)));
  print(fmt::format("bits         {:.4g} an element{}; saves {:.1f}% of f32, {:.1f}% of bf16",
                    q.bits_per_element(), bits ? fmt::format(", {} a block", *bits) : "",
                    100 * memory_saved(q, 32), 100 * memory_saved(q, 16)));
  print(fmt::format("GEMM operand {}", name_of(q.operand_dtype())));
  print(fmt::format("largest      {}", number_text(f.max_finite())));
  print(fmt::format("smallest     {}{}", number_text(f.min_positive()),
                    f.is_integer() ? "" : ", normal " + number_text(std::ldexp(1.0, f.min_exponent()))));
  print_values(f);
}

}  // namespace

void add_formats_command(CLI::App& app) {
  auto* command = app.add_subcommand("formats", "Print the table of number formats, or one with its numbers");
  auto json = std::make_shared<bool>(false);
  auto format = std::make_shared<std::string>();
  command->add_option("FORMAT", *format, "a format, as in recipes: mxfp4, \"e2m2 block=16 scale=e8m0\"");
  add_json_option(*command, *json);
  command->callback([json, format] {
    if (!format->empty()) return print_one(*format, *json);
    if (*json) return print_formats_json();
    print_elements();
    print_blocks();
    print_peer_names();
  });
}

}  // namespace mxtape
