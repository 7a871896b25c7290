#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "formats/quantizer.h"
#include "train/command.h"

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

void print_blocks() {
  print("Formats with block scales, and plain casts");
  print(fmt::format("  {:<11} {:<8} {:>6} {:<11} {:>12} {:>8} {:>8} {:>8}  {}", "name", "element", "block",
                    "scale", "bits/element", "vs f32", "vs bf16", "vs f16", "GEMM operand"));
  const auto line = [](std::string_view name, const Quantizer& q) {
    const double bits = q.bits_per_element();
    const std::string block = q.scale == ScaleKind::none ? "-" : fmt::format("{}", q.block.along);
    print(fmt::format("  {:<11} {:<8} {:>6} {:<11} {:>12.4g} {:>7.2f}x {:>7.2f}x {:>7.2f}x  {}", name,
                      q.element.name(), block, scale_text(q), bits, 32 / bits, 16 / bits, 16 / bits,
                      name_of(q.operand_dtype())));
  };
  for (const Preset& preset : presets) line(preset.name, preset.quantizer);
  for (const char* name : {"f32", "bf16", "f16"}) line(name, parse_quantizer(name));
}

}  // namespace

void add_formats_command(CLI::App& app) {
  auto* command = app.add_subcommand("formats", "Print the table of number formats");
  command->callback([] {
    print_elements();
    print_blocks();
  });
}

}  // namespace mxtape
