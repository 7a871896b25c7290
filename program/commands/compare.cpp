#include <cmath>
#include <map>

#include "formats/statistics.h"
#include "program/commands/tensor_source.h"
#include "program/show/command.h"
#include "program/show/format_json.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string source, normal, axis = "cols";
  std::vector<std::string> formats;
  std::uint64_t seed = 1;
  bool histogram = false;
};

/// What is compared when no --format is given: the presets, the scale rules of MXFP4, ways to round it
/// without bias, and NVFP4's variants.
const std::vector<std::string> usual_formats{"bf16",
                                             "mxfp8_e4m3",
                                             "mxfp8_e5m2",
                                             "mxint8",
                                             "mxfp6_e2m3",
                                             "mxfp6_e3m2",
                                             "mxfp4",
                                             "mxfp4 rule=even",
                                             "mxfp4 rule=ceil",
                                             "mxfp4 rule=rceil",
                                             "mxfp4 round=stochastic",
                                             "mxfp4 round=stochastic alpha=0.75",
                                             "nvfp4",
                                             "nvfp4 4o6",
                                             "nvfp4 block=16x16",
                                             "e3m0 scale=e8m0 rule=ceil",
                                             "int4 emax=3 range=full scale=e8m0 rule=ceil",
                                             "int4 scale=f32"};

struct Row {
  std::string format;
  Quantizer quantizer;
  ErrorStatistics statistics;
  bool best = false;  ///< least error among elements of the same width
};

/// Of what was measured on every element.
void mark_best(std::vector<Row>& rows) {
  std::map<int, double> least;
  for (const Row& row : rows) {
    if (row.statistics.nonfinite > 0) continue;
    const auto [at, fresh] = least.emplace(row.quantizer.element.bits(), row.statistics.mse);
    if (!fresh) at->second = std::min(at->second, row.statistics.mse);
  }
  for (Row& row : rows)
    row.best = row.statistics.nonfinite == 0 && row.statistics.mse == least.at(row.quantizer.element.bits());
}

/// What stands under a row.
std::string remarks(const ErrorStatistics& s, bool histogram) {
  std::string text;
  if (s.nonfinite > 0) text += fmt::format("      {} elements not finite, left out\n", s.nonfinite);
  if (!histogram || s.scales.empty()) return text;
  text += "      scales";
  for (const auto& [exponent, blocks] : s.scales) text += fmt::format("  2^{}: {}", exponent, blocks);
  return text + "\n";
}

void fill(Table& table, const std::vector<Row>& rows, bool histogram) {
  for (const Row& row : rows) {
    const ErrorStatistics& s = row.statistics;
    const Quantizer& q = row.quantizer;
    // Of a sum over no element there is nothing to say.
    const auto error = [&](double value, const char* infinite = "above the largest double") {
      const bool measured = s.nonfinite < s.count;
      return Value(measured ? std::optional(value) : std::nullopt,
                   measured ? infinite : "no element is finite before and after");
    };
    std::vector<Value> scales;
    for (const auto& [exponent, blocks] : s.scales)
      scales.push_back(object("exponent", exponent, "blocks", blocks));
    table
        .row(row.best ? "*" : "", row.format, to_text(q),
             object("*", storage_of(q), "*", numbers_of(q.element)), s.bits_per_element, bits_per_block(q),
             s.blocks, s.bytes, memory_saved(q, 32), memory_saved(q, 16), error(s.mse), error(s.mae),
             error(s.relative_rmse()), error(s.sqnr_db(), "infinite: no element changed"),
             error(s.max_abs_error), s.clipped, s.flushed, s.nonfinite, row.best, scales)
        .below = remarks(s, histogram);
  }
}

void put_tensor(Report& out, const HostTensor& x, const ErrorStatistics& all, const ErrorStatistics& blocks) {
  const std::size_t bytes = x.values.size() * sizeof(float);
  const double rms = std::sqrt(all.mean_square);
  out.line(
      "{}: {} rows of {}, {} bytes in f32, rms {:.4g}, crest factor {:.2f}; largest/smallest in blocks of 32 "
      "over 2x {:.1f}%, 10x {:.1f}%, 100x {:.1f}%",
      x.name, x.rows(), x.cols(), bytes, rms, all.crest_factor, 100 * blocks.spread_over[0],
      100 * blocks.spread_over[1], 100 * blocks.spread_over[2]);
  Value tensor = object("name", x.name, "rows", x.rows(), "cols", x.cols(), "bytes", bytes, "rms", rms,
                        "crest_factor", all.crest_factor);
  for (std::size_t k = 0; k < spread_limits.size(); ++k)
    put(tensor, fmt::format("blocks_spread_over_{}", spread_limits[k]), blocks.spread_over[k]);
  out.put("tensor", tensor);
}

Report run(const Arguments& a, const Given& given) {
  require(a.source.empty() != a.normal.empty(), ExitCode::usage,
          "compare: {}; want a tensor, {}, or --normal ROWSxCOLS, and not both",
          a.source.empty() ? "no tensor" : fmt::format("'{}' and --normal {}", a.source, a.normal),
          tensor_names);
  const Axis axis = a.axis == "rows" ? Axis::column : Axis::row;
  std::vector<Row> rows;
  bool draws = !a.normal.empty();
  for (const auto& text : a.formats.empty() ? usual_formats : a.formats) {
    rows.push_back({text, parse_quantizer(text), {}});
    draws = draws || rows.back().quantizer.is_stochastic();
  }
  require(draws || !given("--seed"), ExitCode::usage,
          "compare: --seed has no effect: neither --normal nor round=stochastic draws numbers here");
  const HostTensor x = a.source.empty() ? normal_tensor(a.normal, a.seed) : load_tensor(a.source);
  const auto measure = [&](const Quantizer& q) {
    return error_statistics(x.values.data(), x.rows(), x.cols(), axis, q, DrawKey{a.seed});
  };
  for (Row& row : rows) row.statistics = measure(row.quantizer);
  mark_best(rows);
  Report out;
  put_tensor(out, x, measure(f32_passthrough), measure(mxfp4));
  std::size_t width = 6;
  for (const Row& row : rows) width = std::max(width, row.format.size());
  out.line("  {:<{}} {:>12} {:>20} {:>15} {:>50}", "", width, "bits per", "", "saved against", "largest");
  out.put("axis", a.axis);
  fill(out.table("formats",
                 "|~; format|format; meaning; *; |elem.|>5.4g; |block|>6; blocks|blocks|>9; bytes|bytes|>10; "
                 "|f32|>7.1%; |bf16|>7.1%; mse|MSE|>10.4g; mae|MAE|>10.4g; relative_rmse|rel RMSE|>9.4g; "
                 "sqnr_db|SQNR dB|>8.2f; max_error|error|>10.4g; clipped|clipped|>8.2%; "
                 "flushed|flushed|>8.2%; not_finite; best_of_its_width; scales",
                 "", 1),
       rows, a.histogram);
  out.line("* least error among elements of the same width");
  return out;
}

Options options(Arguments& a) {
  return {{"[TENSOR]", &a.source, tensor_names},
          {"--normal", &a.normal, "Use standard normal numbers: ROWSxCOLS"},
          {"--format", &a.formats, "A format, as in recipes; may be repeated: --format mxfp4 --format nvfp4"},
          {"--axis", &a.axis, "Blocks run along cols (inside a row) or down rows", one_of("cols rows")},
          {"--seed", &a.seed, "Of --normal and of stochastic rounding"},
          {"--scales", &a.histogram, "Print how many blocks have which scale", excludes("--json")}};
}

}  // namespace

Command commands::compare() {
  return {"compare", "Compare the errors of number formats on one tensor", with(options, run)};
}

}  // namespace mxtape
