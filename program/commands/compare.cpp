#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "formats/telemetry/statistics.h"
#include "program/command.h"
#include "program/json/format_json.h"
#include "program/tensor_source.h"

namespace mxtape {
namespace {

struct CompareOptions {
  std::string source, normal, axis = "cols";
  std::vector<std::string> formats;
  std::uint64_t seed = 1;
  bool seeded = false, histogram = false, json = false;
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

void print_histogram(const ErrorStatistics& s) {
  std::string line = "      scales";
  for (const auto& [exponent, blocks] : s.scales) line += fmt::format("  2^{}: {}", exponent, blocks);
  std::puts(line.c_str());
}

void print_table(const std::vector<Row>& rows, bool histogram) {
  std::size_t width = 6;
  for (const Row& row : rows) width = std::max(width, row.format.size());
  std::puts(fmt::format("  {:<{}} {:>12} {:>20} {:>15} {:>50}", "", width, "bits per", "", "saved against",
                        "largest")
                .c_str());
  std::puts(fmt::format(
                "  {:<{}} {:>5} {:>6} {:>9} {:>10} {:>7} {:>7} {:>10} {:>10} {:>9} {:>8} {:>10} {:>8} {:>8}",
                "format", width, "elem.", "block", "blocks", "bytes", "f32", "bf16", "MSE", "MAE", "rel RMSE",
                "SQNR dB", "error", "clipped", "flushed")
                .c_str());
  for (const Row& row : rows) {
    const ErrorStatistics& s = row.statistics;
    // Of a sum over no element there is nothing to say.
    const auto error = [&](double value, const char* form) {
      return s.nonfinite < s.count ? fmt::format(fmt::runtime(form), value) : std::string("-");
    };
    const auto block = bits_per_block(row.quantizer);
    std::puts(
        fmt::format(
            "{} {:<{}} {:>5.4g} {:>6} {:>9} {:>10} {:>6.1f}% {:>6.1f}% {:>10} {:>10} {:>9} {:>8} {:>10} "
            "{:>7.2f}% {:>7.2f}%",
            row.best ? '*' : ' ', row.format, width, s.bits_per_element,
            block ? fmt::format("{}", *block) : "-", s.blocks, s.bytes, 100 * memory_saved(row.quantizer, 32),
            100 * memory_saved(row.quantizer, 16), error(s.mse, "{:.4g}"), error(s.mae, "{:.4g}"),
            error(s.relative_rmse(), "{:.4g}"), error(s.sqnr_db(), "{:.2f}"),
            error(s.max_abs_error, "{:.4g}"), 100 * s.clipped, 100 * s.flushed)
            .c_str());
    if (s.nonfinite > 0)
      std::puts(fmt::format("      {} elements not finite, left out", s.nonfinite).c_str());
    if (histogram) print_histogram(s);
  }
  std::puts("* least error among elements of the same width");
}

Json json_of(const Row& row) {
  const ErrorStatistics& s = row.statistics;
  Json json{{"format", row.format}, {"meaning", to_text(row.quantizer)}};
  put_storage(json, row.quantizer);
  put_numbers(json, row.quantizer.element);
  json["blocks"] = s.blocks;
  json["bytes"] = s.bytes;
  const auto error = [&](const char* name, double value, const char* infinite = "above the largest double") {
    const bool measured = s.nonfinite < s.count;
    put_number(json, name, measured ? std::optional(value) : std::nullopt,
               measured ? infinite : "no element is finite before and after");
  };
  error("mse", s.mse);
  error("mae", s.mae);
  error("relative_rmse", s.relative_rmse());
  error("sqnr_db", s.sqnr_db(), "infinite: no element changed");
  error("max_error", s.max_abs_error);
  json["clipped"] = s.clipped;
  json["flushed"] = s.flushed;
  json["not_finite"] = s.nonfinite;
  json["best_of_its_width"] = row.best;
  json["scales"] = Json::array();
  for (const auto& [exponent, blocks] : s.scales)
    json["scales"].push_back({{"exponent", exponent}, {"blocks", blocks}});
  return json;
}

void print_tensor(const HostTensor& x, const ErrorStatistics& blocks) {
  std::puts(fmt::format("{}: {} rows of {}, {} bytes in f32, rms {:.4g}, crest factor {:.2f}; "
                        "largest/smallest in blocks of 32 over "
                        "2x {:.1f}%, 10x {:.1f}%, 100x {:.1f}%",
                        x.name, x.rows(), x.cols(), x.values.size() * sizeof(float),
                        std::sqrt(blocks.mean_square), blocks.crest_factor, 100 * blocks.spread_over[0],
                        100 * blocks.spread_over[1], 100 * blocks.spread_over[2])
                .c_str());
}

Json json_of(const HostTensor& x, const ErrorStatistics& blocks) {
  Json json{
      {"name", x.name}, {"rows", x.rows()}, {"cols", x.cols()}, {"bytes", x.values.size() * sizeof(float)}};
  json["rms"] = std::sqrt(blocks.mean_square);
  json["crest_factor"] = blocks.crest_factor;
  for (std::size_t k = 0; k < spread_limits.size(); ++k)
    json[fmt::format("blocks_spread_over_{}", spread_limits[k])] = blocks.spread_over[k];
  return json;
}

void compare(const CompareOptions& options) {
  require(options.source.empty() != options.normal.empty(), ExitCode::usage,
          "compare: {}; want a tensor, {}, or --normal ROWSxCOLS, and not both",
          options.source.empty() ? "no tensor"
                                 : fmt::format("'{}' and --normal {}", options.source, options.normal),
          tensor_names);
  const Axis axis = options.axis == "rows" ? Axis::column : Axis::row;
  std::vector<Row> rows;
  bool draws = !options.normal.empty();
  for (const auto& text : options.formats.empty() ? usual_formats : options.formats) {
    rows.push_back({text, parse_quantizer(text), {}});
    draws = draws || rows.back().quantizer.is_stochastic();
  }
  require(draws || !options.seeded, ExitCode::usage,
          "compare: --seed has no effect: neither --normal nor round=stochastic draws numbers here");
  const HostTensor x =
      options.source.empty() ? normal_tensor(options.normal, options.seed) : load_tensor(options.source);
  const auto measure = [&](const Quantizer& q) {
    return error_statistics(x.values.data(), x.rows(), x.cols(), axis, q, DrawKey{options.seed});
  };
  const ErrorStatistics blocks = measure(mxfp4);
  for (Row& row : rows) row.statistics = measure(row.quantizer);
  mark_best(rows);
  if (!options.json) {
    print_tensor(x, blocks);
    print_table(rows, options.histogram);
    return;
  }
  Json json{{"tensor", json_of(x, blocks)}, {"axis", options.axis}, {"formats", Json::array()}};
  for (const Row& row : rows) json["formats"].push_back(json_of(row));
  print_json(json);
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto* command = app.add_subcommand("compare", "Compare the errors of number formats on one tensor");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("TENSOR", options->source, tensor_names);
  command->add_option("--normal", options->normal, "Use standard normal numbers: ROWSxCOLS");
  repeatable(command->add_option("--format", options->formats,
                                 "A format, as in recipes; may be repeated: --format mxfp4 --format nvfp4"));
  command->add_option("--axis", options->axis, "Blocks run along cols (inside a row) or down rows")
      ->check(CLI::IsMember({"cols", "rows"}))
      ->capture_default_str();
  auto* seed = command->add_option("--seed", options->seed, "Of --normal and of stochastic rounding")
                   ->check(whole(0))
                   ->capture_default_str();
  command->add_flag("--scales", options->histogram, "Print how many blocks have which scale")
      ->excludes(add_json_option(*command, options->json));
  command->callback([=] {
    options->seeded = !seed->empty();
    compare(*options);
  });
}

}  // namespace mxtape
