#include <cstdio>

#include "core/files/atomic_file.h"
#include "program/plot/gnuplot.h"
#include "program/plot/heat_map.h"
#include "program/plot/plot.h"
#include "program/records/run_log.h"
#include "program/show/command.h"
#include "program/show/progress.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> runs;
  std::string base, output, title, format;
  std::vector<std::string> measures;  ///< of telemetry
  double loss = 0;
};

/// Draws pictures beside `stem`, each as .svg and .png; returns their names without these.
using Draw = std::function<std::vector<std::string>(const fs::path& stem)>;

/// The table first: it needs no gnuplot. The JSON, one document, names the pictures that were written.
Report draw(const Arguments& a, Report out, const Given& given, const Draw& draw) {
  out.show(given.json);
  std::vector<std::string> pictures;
  try {
    for (const auto& stem : draw(a.output)) {
      for (const char* suffix : {".svg", ".png"}) pictures.push_back(stem + suffix);
      out.line("wrote {0}.svg and {0}.png", stem);
    }
  } catch (const Error& e) {
    out.problems.push_back(e);
  }
  out.put("pictures", pictures);
  return out;
}

/// One picture, called as --out says.
Draw one_picture(gnuplot::Script script) {
  return [script = std::move(script)](const fs::path& stem) {
    gnuplot::write_pictures(stem, script);
    return std::vector{stem.string()};
  };
}

Report plot_runs(const Arguments& a, const Given& given) {
  std::vector<RunLog> runs;
  const int generations = given("--steps-to") ? 64 : 0;  // names may go in a circle
  for (const auto& path : a.runs) runs.push_back(read_run_log_with_parent(path, generations));
  const auto data = data_beside_names(a.runs);
  const Table table = summary_table(runs, data);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name += data[i];
  Report out;
  out.line("{}{}", table.text(columns(stdout)), remark_on_data(data));
  std::vector<std::string> notes;
  for (const RunLog& run : runs) {
    if (run.past_missing.empty()) continue;
    notes.push_back(fmt::format("{}: its past is not drawn whole: {}", run.name, run.past_missing));
    out.line("note: {}", notes.back());
  }
  out.put("runs", table, "losses_compare", remark_on_data(data).empty(), "notes", notes);
  std::optional<double> level;
  if (given("--steps-to")) {
    level = a.loss;
    Table& when = out.table("steps_to", "name|run; loss|to~[nats]|>; steps|steps|>.0f; seconds|seconds|>.4g");
    for (const RunLog& run : runs) {
      auto steps = steps_to(run.validation, a.loss);
      const bool before = steps && !run.past_missing.empty() && *steps == double(run.validation[0].step);
      if (before) steps.reset();
      const auto seconds = steps ? std::optional(*steps * run.median_milliseconds / 1e3) : std::nullopt;
      const std::string never =
          before ? "the run had it where its curve begins" : "the run never has this loss";
      when.row(run.name, a.loss, Value(steps, never, before ? "before" : "never"), Value(seconds, never));
    }
  }
  return draw(a, std::move(out), given, one_picture([&](const std::string& terminal, const fs::path& output) {
                return gnuplot_script(runs, terminal, output, a.title, level);
              }));
}

Report plot_differences(const Arguments& a, const Given& given) {
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
  std::int64_t shared = 1;
  for (const auto& log : logs) shared = std::max(shared, std::min(log.last_step(), base.last_step()));
  const std::int64_t width = std::max<std::int64_t>(1, shared / windows);
  std::vector<RunDifference> runs;
  for (const auto& log : logs) runs.push_back(difference(log, base, width));
  const auto data = data_beside_names(paths);
  const Table table = difference_table(runs, width, data);
  Report out;
  out.line("{}{}", table.text(columns(stdout)), remark_on_data(data));
  out.put("base", summary_table({&base, 1}).object(0), "window_steps", width, "differences", table,
          "losses_compare", remark_on_data(data).empty());
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].base += data[0], runs[i].name += data[i + 1];
  return draw(a, std::move(out), given, one_picture([&](const std::string& terminal, const fs::path& output) {
                return difference_script(runs, width, terminal, output, a.title);
              }));
}

Value value_of(const HeatMap& map) {
  Value json = object("measure", map.measure);
  if (!map.format.empty()) put(json, "format", map.format);
  Table panels("slot; values");
  for (const auto& panel : map.panels)  // NaN, where nothing was measured, becomes null
    panels.row(panel.slot, panel.values);
  put(json, "layers", map.layers, "steps", map.steps, "panels", panels);
  return json;
}

Report plot_telemetry(const Arguments& a, const Given& given) {
  require(a.runs.size() == 1, ExitCode::usage, "plot: --telemetry shows one run; found {}", a.runs.size());
  const TelemetryLog log = read_telemetry(a.runs.front());
  const bool all = std::ranges::find(a.measures, "all") != a.measures.end();
  require(!all || a.measures.size() == 1, ExitCode::usage,
          "plot: --telemetry all is each measure that there is; want it alone");
  std::vector<HeatMap> maps;
  for (const auto& measure : all ? measures_in(log, a.format) : a.measures)
    maps.push_back(heat_map(log, measure, a.format));
  std::vector<Value> shown;
  const std::size_t screen = columns(stdout), width = screen ? screen : 80;
  std::string table;
  for (const HeatMap& map : maps) shown.push_back(value_of(map)), table += heat_table(map, width);
  Report out;
  out.text(table);
  out.put("run", log.name, "maps", shown);
  return draw(a, std::move(out), given, [&](const fs::path& stem) {
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

Report run(Arguments& a, const Given& given) {
  const bool gaps = given("--difference");
  if (!given("--out")) a.output = !a.measures.empty() ? "telemetry" : gaps ? "difference" : "loss";
  gnuplot::require_stem("--out", a.output);
  std::vector<std::string> inputs{a.base};
  inputs.insert(inputs.end(), a.runs.begin(), a.runs.end());
  for (const char* suffix : {".svg", ".png"}) require_output(a.output + suffix, inputs, true);
  if (!a.measures.empty()) return plot_telemetry(a, given);
  return gaps ? plot_differences(a, given) : plot_runs(a, given);
}

Options options(Arguments& a) {
  return {
      {"runs", &a.runs, "run folders, or their metrics.jsonl"},
      {"--telemetry", &a.measures,
       "draw layers by steps of this measure of one run's telemetry instead, such as relative_rmse; may be "
       "repeated; all: each that there is"},
      {"--format", &a.format, "with --telemetry: as it would be in this what-if format of telemetry.formats",
       needs("--telemetry")},
      {"--steps-to", &a.loss, "also when each run first has this validation loss, in nats per token",
       from(0).excludes("--difference --telemetry")},
      {"--difference", &a.base, "draw how far the losses of the runs lie above those of this run instead",
       excludes("--telemetry")},
      {"--out", &a.output,
       "files without .svg and .png; default: loss, difference, or telemetry, to which the measure is added"},
      {"--title", &a.title, "printed above the curves"}};
}

}  // namespace

Command commands::plot() {
  return {"plot", "Loss curves of runs as SVG and PNG, and a table of their results", with(options, run)};
}

}  // namespace mxtape
