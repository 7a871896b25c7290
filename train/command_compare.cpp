#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "formats/statistics.h"
#include "train/command.h"
#include "train/tensor_source.h"

namespace mxtape {
namespace {

struct CompareOptions {
  std::string source, normal, axis = "cols";
  std::vector<std::string> formats;
  std::uint64_t seed = 1;
  bool seeded = false, histogram = false;
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
  int element_bits;
  ErrorStatistics statistics;
};

void print_histogram(const ErrorStatistics& s) {
  std::string line = "      scales";
  for (const auto& [exponent, blocks] : s.scales) line += fmt::format("  2^{}: {}", exponent, blocks);
  std::puts(line.c_str());
}

void print_table(const std::vector<Row>& rows, bool histogram) {
  std::map<int, double> best;  // least error by width, of what was measured on every element
  for (const Row& row : rows) {
    if (row.statistics.nonfinite > 0) continue;
    const auto [at, fresh] = best.emplace(row.element_bits, row.statistics.mse);
    if (!fresh && row.statistics.mse < at->second) at->second = row.statistics.mse;
  }
  std::size_t width = 6;
  for (const Row& row : rows) width = std::max(width, row.format.size());
  std::puts(fmt::format("  {:<{}} {:>7} {:>7} {:>7} {:>7} {:>10} {:>9} {:>9} {:>10} {:>8} {:>8}", "format",
                        width, "bits", "vs f32", "vs bf16", "vs f16", "MSE", "rel RMSE", "SQNR dB",
                        "max error", "clipped", "flushed")
                .c_str());
  for (const Row& row : rows) {
    const ErrorStatistics& s = row.statistics;
    const auto least = best.find(row.element_bits);
    const bool marked = s.nonfinite == 0 && least != best.end() && s.mse == least->second;
    // Of a sum over no element there is nothing to say.
    const auto error = [&](double value, const char* form) {
      return s.nonfinite < s.count ? fmt::format(fmt::runtime(form), value) : std::string("-");
    };
    std::puts(fmt::format("{} {:<{}} {:>7.4g} {:>6.2f}x {:>6.2f}x {:>6.2f}x {:>10} {:>9} {:>9} {:>10} "
                          "{:>7.2f}% {:>7.2f}%",
                          marked ? '*' : ' ', row.format, width, s.bits_per_element, s.compression(32),
                          s.compression(16), s.compression(16), error(s.mse, "{:.4g}"),
                          error(s.relative_rmse(), "{:.4g}"), error(s.sqnr_db(), "{:.2f}"),
                          error(s.max_abs_error, "{:.4g}"), 100 * s.clipped, 100 * s.flushed)
                  .c_str());
    if (s.nonfinite > 0)
      std::puts(fmt::format("      {} elements not finite, left out", s.nonfinite).c_str());
    if (histogram) print_histogram(s);
  }
  std::puts("* least error among elements of the same width");
}

void compare(const CompareOptions& options) {
  require(options.source.empty() != options.normal.empty(), ExitCode::usage,
          "compare: want a tensor, FILE.npy or FILE.h5:/dataset, or --normal ROWSxCOLS, and not both");
  const Axis axis = options.axis == "rows" ? Axis::rows : Axis::cols;
  std::vector<Row> rows;
  std::vector<Quantizer> quantizers;
  bool draws = !options.normal.empty();
  for (const auto& text : options.formats.empty() ? usual_formats : options.formats) {
    quantizers.push_back(parse_quantizer(text));
    draws = draws || quantizers.back().is_stochastic();
    rows.push_back({text, quantizers.back().element.bits(), {}});
  }
  require(draws || !options.seeded, ExitCode::usage,
          "compare: --seed has no effect: neither --normal nor round=stochastic draws numbers here");
  const HostTensor x =
      options.source.empty() ? normal_tensor(options.normal, options.seed) : load_tensor(options.source);
  const auto measure = [&](const Quantizer& q) {
    return error_statistics(x.values.data(), x.rows(), x.cols(), axis, q, DrawKey{options.seed});
  };
  const ErrorStatistics blocks = measure(mxfp4);
  std::puts(
      fmt::format("{}: {} rows of {}, rms {:.4g}, crest factor {:.2f}; largest/smallest in blocks of 32 over "
                  "2x {:.1f}%, 10x {:.1f}%, 100x {:.1f}%",
                  x.name, x.rows(), x.cols(), std::sqrt(blocks.mean_square), blocks.crest_factor,
                  100 * blocks.spread_over[0], 100 * blocks.spread_over[1], 100 * blocks.spread_over[2])
          .c_str());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].statistics = measure(quantizers[i]);
  print_table(rows, options.histogram);
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto* command = app.add_subcommand("compare", "Compare the errors of number formats on one tensor");
  auto options = std::make_shared<CompareOptions>();
  command->add_option("TENSOR", options->source, "FILE.npy or FILE.h5:/dataset");
  command->add_option("--normal", options->normal, "Use standard normal numbers: ROWSxCOLS");
  command->add_option("--format", options->formats, "A format, as in recipes; may be repeated")->take_all();
  command->add_option("--axis", options->axis, "Blocks run along cols (inside a row) or down rows")
      ->check(CLI::IsMember({"cols", "rows"}))
      ->capture_default_str();
  auto* seed = command->add_option("--seed", options->seed, "Of --normal and of stochastic rounding")
                   ->check(whole(0))
                   ->capture_default_str();
  command->add_flag("--scales", options->histogram, "Print how many blocks have which scale");
  command->callback([=] {
    options->seeded = !seed->empty();
    compare(*options);
  });
}

}  // namespace mxtape
