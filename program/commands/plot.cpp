#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "core/error.h"
#include "program/command.h"
#include "program/plot/data_of_runs.h"
#include "program/plot/gnuplot.h"
#include "program/plot/heat_map.h"
#include "program/plot/plot.h"
#include "program/plot/plot_difference.h"
#include "program/progress.h"
#include "program/show/report.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> runs;
  std::string base, output, title, format;
  std::vector<std::string> measures;  ///< of telemetry
  bool json = false;
};

/// Draws pictures beside `stem`, each as .svg and .png; returns their names without these.
using Draw = std::function<std::vector<std::string>(const fs::path& stem)>;

/// The table first: it needs no gnuplot. The JSON, one document, names the pictures that were written.
void put_out(const Arguments& a, const std::string& table, Json json, const Draw& draw) {
  if (!a.json) fmt::print("{}\n", table);
  std::fflush(stdout);
  std::vector<std::string> stems;
  try {
    stems = draw(a.output);
  } catch (const Error&) {
    json["pictures"] = Json::array();
    if (a.json) print_json(json);
    std::fflush(stdout);
    throw;
  }
  json["pictures"] = Json::array();
  for (const auto& stem : stems) {
    for (const char* suffix : {".svg", ".png"}) json["pictures"].push_back(stem + suffix);
    if (!a.json) fmt::print("wrote {0}.svg and {0}.png\n", stem);
  }
  if (a.json) print_json(json);
}

/// One picture, called as --out says.
Draw one_picture(gnuplot::Script script) {
  return [script = std::move(script)](const fs::path& stem) {
    gnuplot::write_pictures(stem, script);
    return std::vector{stem.string()};
  };
}

void plot_runs(const Arguments& a) {
  std::vector<RunLog> runs;
  for (const auto& path : a.runs) runs.push_back(read_run_log_with_parent(path));
  const auto data = data_beside_names(a.runs);
  const Table table = summary_table(runs, data);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name += data[i];
  put_out(a, table.text(columns(stdout)) + remark_on_data(data), {{"runs", table.json()}},
          one_picture([&](const std::string& terminal, const fs::path& output) {
            return gnuplot_script(runs, terminal, output, a.title);
          }));
}

void plot_differences(const Arguments& a) {
  const RunLog base = read_run_log(a.base);
  std::vector<RunLog> logs;
  std::vector<std::string> paths{a.base};
  std::error_code error;
  for (const auto& path : a.runs)  // runs/* holds the base, too
    if (!fs::equivalent(path, a.base, error)) logs.push_back(read_run_log(path)), paths.push_back(path);
  require(!logs.empty(), ExitCode::usage, "plot: --difference {}: want another run to compare with it",
          a.base);
  constexpr std::int64_t windows =
      50;  // wider than those of losses: a gap is small beside what steps jump about
  const std::int64_t width = steps_per_point(logs, windows);
  std::vector<RunDifference> runs;
  for (const auto& log : logs) runs.push_back(difference(log, base, width));
  const auto data = data_beside_names(paths);
  const Table table = difference_table(runs, width, data);
  Json json{{"base", summary_table({&base, 1}).json()[0]}, {"window_steps", width}};
  json["differences"] = table.json();
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].base += data[0], runs[i].name += data[i + 1];
  put_out(a, table.text(columns(stdout)) + remark_on_data(data), std::move(json),
          one_picture([&](const std::string& terminal, const fs::path& output) {
            return difference_script(runs, width, terminal, output, a.title);
          }));
}

Json json_of(const HeatMap& map) {
  Json json{{"measure", map.measure}};
  if (!map.format.empty()) json["format"] = map.format;
  json["layers"] = map.layers;
  json["steps"] = map.steps;
  json["panels"] = Json::array();
  for (const auto& panel : map.panels)  // NaN, where nothing was measured, becomes null
    json["panels"].push_back({{"slot", panel.slot}, {"values", panel.values}});
  return json;
}

void plot_telemetry(const Arguments& a) {
  require(a.runs.size() == 1, ExitCode::usage, "plot: --telemetry shows one run; found {}", a.runs.size());
  const TelemetryLog log = read_telemetry(a.runs.front());
  const bool all = a.measures.front() == "all";
  std::vector<HeatMap> maps;
  for (const auto& measure : all ? measures_in(log, a.format) : a.measures)
    maps.push_back(heat_map(log, measure, a.format));
  Json json{{"run", log.name}, {"maps", Json::array()}};
  const std::size_t screen = columns(stdout), width = screen ? screen : 80;
  std::string table;
  for (const HeatMap& map : maps) json["maps"].push_back(json_of(map)), table += heat_table(map, width);
  table.pop_back();
  put_out(a, table, std::move(json), [&](const fs::path& stem) {
    std::vector<std::string> written;
    for (const HeatMap& map : maps) {
      written.push_back(fmt::format("{}-{}", stem.string(), map.measure));
      gnuplot::write_pictures(written.back(), [&](const std::string& terminal, const fs::path& output) {
        return heat_script(map, terminal, output, a.title);
      });
    }
    return written;
  });
}

void run(const Arguments& a) {
  gnuplot::require_stem("--out", a.output);
  if (!a.measures.empty()) return plot_telemetry(a);
  a.base.empty() ? plot_runs(a) : plot_differences(a);
}

}  // namespace

void add_plot_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("plot", "Loss curves of runs as SVG and PNG, and a table of their results");
  auto a = std::make_shared<Arguments>();
  command->add_option("runs", a->runs, "run folders, or their metrics.jsonl")->required();
  auto* telemetry = repeatable(command->add_option(
      "--telemetry", a->measures,
      "draw layers by steps of this measure of one run's telemetry instead, such as relative_rmse; may be "
      "repeated; all: each that there is"));
  command
      ->add_option("--format", a->format,
                   "with --telemetry: as it would be in this what-if format of telemetry.formats")
      ->needs(telemetry);
  auto* base = command->add_option("--difference", a->base,
                                   "draw how far the losses of the runs lie above those of this run instead");
  auto* out = command->add_option(
      "--out", a->output,
      "files without .svg and .png; default: loss, difference, or telemetry, to which the "
      "measure is added");
  command->add_option("--title", a->title, "printed above the curves");
  add_json_option(*command, a->json);
  command->callback([=] {
    require(base->empty() || !a->base.empty(), ExitCode::usage, "--difference '': want a run");
    require(base->empty() || telemetry->empty(), ExitCode::usage,
            "plot: --difference and --telemetry are two pictures; want one of them");
    if (out->empty()) a->output = !telemetry->empty() ? "telemetry" : base->empty() ? "loss" : "difference";
    run(*a);
  });
}

}  // namespace mxtape
