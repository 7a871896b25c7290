#include <cmath>

#include "formats/codec/codec.h"
#include "formats/statistics.h"
#include "formats/text/peer_names.h"
#include "program/show/command.h"
#include "program/show/format_json.h"

namespace mxtape {
namespace {

/// "2^-9" for powers of two that are no short decimal, else the decimal.
std::string number_text(double value) {
  int exponent = 0;
  const bool power = std::frexp(value, &exponent) == 0.5;
  return power && exponent < 1 - 3 ? fmt::format("2^{}", exponent - 1) : fmt::format("{:.6g}", value);
}

std::string specials_text(const ElementFormat& f) {
  constexpr std::string_view texts[] = {"-", "NaN", "Inf NaN"};  // by Specials
  return std::string(texts[std::size_t(f.specials)]);
}

void put_elements(Report& out) {
  out.line("Elements");
  Table& table = out.table("elements",
                           "name|name|<6; bits|bits|>4; |exponents|>10; |largest|>12; |min normal|>11; |min "
                           "subnormal|>14; *; codes|codes|>10; specials|~specials",
                           "  ", 1);
  for (const NamedFormat& row : element_formats) {
    const ElementFormat& f = row.format;
    const bool integer = f.is_integer();
    std::vector<Value> specials;
    if (f.specials == Specials::ieee) specials.emplace_back("inf");
    if (f.specials != Specials::none) specials.emplace_back("nan");
    const std::int64_t codes = std::int64_t{1} << f.bits();
    table.row(row.name, f.bits(), integer ? "-" : fmt::format("{}..{}", f.min_exponent(), f.max_exponent()),
              number_text(f.max_finite()), integer ? "-" : number_text(std::ldexp(1.0, f.min_exponent())),
              f.mantissa_bits == 0 && !integer ? "-" : number_text(double(f.min_positive())), numbers_of(f),
              Value(codes, "", f.bits() < 32 ? std::to_string(codes) : "2^32"),
              Value(specials, "", " " + specials_text(f)));
  }
  out.line("  also any e<x>m<y> (x 1 to 8, y up to 22; no code reserved) and int<n> (n 2 to 24)\n");
}

std::string scale_text(const Quantizer& q) {
  if (q.scale == ScaleKind::none) return "-";
  if (q.scale == ScaleKind::power_of_two) return fmt::format("e{}m0", int(q.scale_bits));
  if (q.scale == ScaleKind::f32) return "f32";
  return (q.scale_sign ? "" : "u") + q.scale_format.name() + (q.outer == OuterScale::none ? "" : " + f32");
}

/// The presets, and plain casts to the formats that a GEMM computes in.
std::vector<Preset> listed_formats() {
  std::vector<Preset> all(presets.begin(), presets.end());
  for (const std::string_view name : {"f32", "bf16", "f16"}) all.push_back({name, parse_quantizer(name)});
  return all;
}

void put_formats(Table& table, const std::vector<Preset>& formats) {
  for (const auto& [name, q] : formats) {
    const bool plain = q.scale == ScaleKind::none;
    table.row(name, q.element.name(), plain ? Value(nullptr, "no blocks") : Value(q.block.along),
              plain ? Value(nullptr, "a plain cast") : Value(scale_text(q)), storage_of(q),
              q.bits_per_element(), bits_per_block(q), memory_saved(q, 32), memory_saved(q, 16),
              Value(name_of(q.operand_dtype()), "", fmt::format(" {}", name_of(q.operand_dtype()))));
  }
}

constexpr const char* format_columns =
    "name|name|<11; element|element|<8; block|block|>6; scale|scale|<11; *; |bits/element|>12.4g; "
    "|bits/block|>10; |saved vs f32|>13.1%; |vs bf16|>8.1%; gemm_operand|~GEMM operand";

Report all_formats() {
  Report out;
  put_elements(out);
  out.line("Formats with block scales, and plain casts");
  put_formats(out.table("formats", format_columns, "  ", 1), listed_formats());
  out.line("\nOther projects' names that are understood");
  std::vector<Value> names;
  for (const PeerName& row : peer_names) {
    if (!row.is_exact()) continue;
    out.line("  {:<18} {}", row.name, row.ours);
    names.push_back(object("name", row.name, "format", row.ours));
  }
  out.put("peer_names", names);
  return out;
}

/// In lines, exactly.
std::string values_text(const ElementFormat& f) {
  if (f.bits() > most_listed_bits) return "values       more than are listed\n";
  const auto values = values_of(f);
  const bool mirrored = values.front() == -values.back();
  std::string all,
      line = fmt::format("values       {}:{}", values.size(), mirrored ? " 0, and with either sign" : "");
  constexpr std::size_t width = 100;
  for (const float value : values) {
    if (mirrored && value <= 0) continue;
    const std::string text = fmt::format(" {}", value);
    if (line.size() + text.size() > width) all += std::exchange(line, std::string(12, ' ')) + "\n";
    line += text;
  }
  return all + line + "\n";
}

Report one_format(const std::string& text) {
  const Quantizer q = parse_quantizer(text);
  const ElementFormat& f = q.element;
  const auto bits = bits_per_block(q);
  Report out;
  out.line("format       {}", to_text(q));
  out.line("element      {}, {} bits, special codes: {}", f.name(), f.bits(), specials_text(f));
  out.line("scale        {}", scale_text(q));
  out.line("bits         {:.4g} an element{}; saves {:.1f}% of f32, {:.1f}% of bf16", q.bits_per_element(),
           bits ? fmt::format(", {} a block", *bits) : "", 100 * memory_saved(q, 32),
           100 * memory_saved(q, 16));
  out.line("GEMM operand {}", name_of(q.operand_dtype()));
  out.line("largest      {}", number_text(f.max_finite()));
  out.line("smallest     {}{}", number_text(f.min_positive()),
           f.is_integer() ? "" : ", normal " + number_text(std::ldexp(1.0, f.min_exponent())));
  out.text(values_text(f));
  Table table(format_columns);
  put_formats(table, {{text, q}});
  out.put("*", table.object(0), "meaning", to_text(q), "*", numbers_of(f));
  return out;
}

struct Arguments {
  std::string format;
};

Options options(Arguments& a) {
  return {{"[FORMAT]", &a.format, "a format, as in recipes: mxfp4, \"e2m2 block=16 scale=e8m0\""}};
}

Report run(const Arguments& a) { return a.format.empty() ? all_formats() : one_format(a.format); }

}  // namespace

Command commands::formats() {
  return {"formats", "Print the table of number formats, or one with its numbers", with(options, run)};
}

}  // namespace mxtape
