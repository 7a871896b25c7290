#include "program/plot/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/files/atomic_file.h"
#include "data/hdf5/hdf5.h"
#include "program/plot/gnuplot.h"
#include "program/records/run_folder.h"
#include "recipes/recipe.h"
#include "train/evaluate.h"

namespace mxtape {
namespace {

using namespace gnuplot;

/// The first point, where a curve leaves another, and means of the others.
std::vector<RunLog::Point> thinned_after_first(const std::vector<RunLog::Point>& points, std::int64_t width) {
  if (points.empty()) return {};
  auto means = thinned({points.begin() + 1, points.end()}, width);
  means.insert(means.begin(), points.front());
  return means;
}

/// The losses shown: all but the fall of the first few points, which would flatten the rest.
std::array<double, 2> loss_range(std::span<const RunLog> runs, std::int64_t width) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& run : runs) {
    const auto train = thinned(run.train, width);
    for (const auto& p : train) low = std::min(low, p.loss);
    for (const auto& p : run.validation) low = std::min(low, p.loss), high = std::max(high, p.loss);
    if (run.floor) low = std::min(low, *run.floor);
    high = std::max(high, train[std::min<std::size_t>(2, train.size() - 1)].loss);
  }
  const double margin = std::max(0.04 * (high - low), 1e-3);
  return {low - margin, high + margin};
}

struct DataOfRun {
  std::filesystem::path file;
  std::int64_t vocabulary, context;
  std::string hash;        ///< of its content; empty without a checkpoint that can be read
  std::int64_t windows{};  ///< of a validation; 0 without the data
  bool operator==(const DataOfRun& other) const {
    const bool same_data = hash.empty() || other.hash.empty()
                               ? file == other.file && vocabulary == other.vocabulary
                               : hash == other.hash;
    const bool comparable = windows > 0 && other.windows > 0 && context == other.context;
    return same_data && (!comparable || windows == other.windows);
  }
};

std::optional<DataOfRun> data_of(const std::filesystem::path& run) {
  const std::filesystem::path file =
      (std::filesystem::is_directory(run) ? run : run.parent_path()) / "recipe.toml";
  if (!std::filesystem::exists(file)) return {};
  const Recipe recipe = recipe_from_toml(read_whole_text(file), file.string());
  DataOfRun data{std::filesystem::weakly_canonical(recipe.data.file), recipe.model.vocabulary,
                 recipe.model.context, ""};
  try {  // without reading a checkpoint whole
    if (const auto all = list_checkpoints(file.parent_path()); !all.empty())
      data.hash = Hdf5Reader(all.front()).text_attribute("/", "data_hash");
    const std::int64_t tokens = Hdf5Reader(data.file).info("validation").count();
    data.windows = validation_windows(recipe.train, (tokens - 1) / data.context);
  } catch (const Error&) {  // none, or none that can be read
  }
  return data;
}

}  // namespace

std::vector<RunLog::Point> thinned(const std::vector<RunLog::Point>& points, std::int64_t width) {
  std::vector<RunLog::Point> means;
  for (std::size_t first = 0; first < points.size(); first += std::size_t(width)) {
    const std::size_t last = std::min(points.size(), first + std::size_t(width));
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += points[i].loss;
    means.push_back({points[(first + last - 1) / 2].step, sum / double(last - first)});
  }
  return means;
}

std::int64_t steps_per_point(std::span<const RunLog> runs, std::int64_t points) {
  std::int64_t most = 1;
  for (const auto& run : runs) most = std::max(most, run.train.back().step);
  return std::max<std::int64_t>(1, most / points);
}

std::string gnuplot_script(std::span<const RunLog> runs, const std::string& terminal,
                           const std::filesystem::path& output, const std::string& title,
                           std::optional<double> level) {
  std::string script;
  const std::int64_t width = steps_per_point(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    put_points(script, fmt::format("train{}", i), thinned(runs[i].train, width));
    put_points(script, fmt::format("validation{}", i), runs[i].validation);
    for (std::size_t n = 0; n < runs[i].taken_back.size(); ++n)
      put_points(script, fmt::format("taken_back{}_{}", i, n),
                 thinned_after_first(runs[i].taken_back[n], width));
  }
  script += frame(terminal, output, title, "loss [nats per token]", loss_range(runs, width));
  constexpr std::size_t fit = 6;  // names in the corner above the curves
  if (runs.size() > fit) script += key_below(runs.size() + 3);
  script += "set key title 'bold: validation, with its last value'\n";

  std::vector<std::string> curves;
  for (std::size_t i = 0; i < runs.size(); ++i)
    curves.push_back(
        fmt::format("$train{} using 1:2 with lines linewidth 1.2 {} notitle", i, line_of(i, "A0")));
  bool went_back = false;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t n = 0; n < runs[i].taken_back.size(); ++n) {
      if (runs[i].taken_back[n].empty()) continue;
      went_back = true;
      const std::string points = fmt::format("$taken_back{}_{} using 1:2", i, n);
      curves.push_back(fmt::format("{} with lines linewidth 1.5 dashtype 3 linecolor rgb '#{}' notitle",
                                   points, colour_of(i)));
      curves.push_back(fmt::format(
          "{} every ::0::0 with points pointtype 6 pointsize 1.4 linewidth 1.5 linecolor rgb '#{}' notitle",
          points, colour_of(i)));
    }
  if (went_back)
    curves.push_back(
        "NaN with lines linewidth 1.5 dashtype 3 linecolor rgb '#555555' title 'dotted, from the ring on: "
        "taken back'");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& validation = runs[i].validation;
    const std::string name =
        validation.empty() ? runs[i].name : fmt::format("{}  {:.4f}", runs[i].name, validation.back().loss);
    // A run without a validation yet still wants its colour in the key.
    curves.push_back(
        validation.empty()
            ? fmt::format("NaN with lines linewidth 1 {} title {}", line_of(i), quoted(name))
            : fmt::format(
                  "$validation{} using 1:2 with linespoints linewidth 2.5 {} pointsize 0.6 {} title {}", i,
                  mark_of(i), line_of(i), quoted(name)));
  }
  curves.push_back(
      fmt::format("NaN with lines linewidth 1.2 linecolor rgb '#A0555555' title '{}'",
                  width == 1 ? "faint: training" : fmt::format("faint: training, means of {} steps", width)));
  std::vector<double> floors;
  for (const auto& run : runs)
    if (run.floor && std::ranges::find(floors, *run.floor) == floors.end()) floors.push_back(*run.floor);
  for (double floor : floors)
    curves.push_back(fmt::format(
        "{} with lines dashtype 2 linewidth 1.5 linecolor rgb '#333333' title 'floor of the data  {:.4f}'",
        floor, floor));
  if (level)
    curves.push_back(fmt::format(
        "{0} with lines dashtype 4 linewidth 1.2 linecolor rgb '#333333' title 'loss {0}'", *level));
  for (std::size_t i = 0; level && i < runs.size(); ++i)
    if (const auto steps = steps_to(runs[i].validation, *level))
      script += fmt::format(
          "set label '{:.0f}' at {},{} point pointtype 6 pointsize 1.4 linecolor rgb '#{}' offset 0.5,0.7\n",
          *steps, *steps, *level, colour_of(i));
  return script + plot_command(curves);
}

Table summary_table(std::span<const RunLog> runs, const std::vector<std::string>& beside_names) {
  constexpr const char *no_validation = "no validation yet",
                       *no_floor = "the data does not carry its entropy";
  Table table(
      "name|run; steps|steps|>; validation_loss|validation|>.4f; perplexity|perplexity|>.4f|3; "
      "floor|floor|>.4f|4; above_floor|gap|>.4f; ms_per_step|ms/step|>.1f|2; tokens_per_second|tok/s|>.0f|1; "
      "rollbacks");
  std::string turns;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunLog& run = runs[i];
    std::optional<double> loss, perplexity, gap;
    if (!run.validation.empty()) perplexity = std::exp(*(loss = run.validation.back().loss));
    if (loss && run.floor) gap = *loss - *run.floor;
    Table rollbacks("step; from");
    const std::string name = run.name + (beside_names.empty() ? "" : beside_names[i]);
    for (const auto& turn : run.turns)
      if (turn.event == "rollback") {
        rollbacks.row(turn.step, turn.from);
        turns += fmt::format("{}: step {} or its validation was not finite; the run went back to step {}\n",
                             name, turn.from, turn.step);
      }
    table
        .row(Value(run.name, "", name), run.train.back().step, Value(loss, no_validation),
             Value(perplexity, loss ? "above the largest double" : no_validation),
             Value(run.floor, loss ? no_floor : no_validation), Value(gap, loss ? no_floor : no_validation),
             run.median_milliseconds, run.median_tokens_per_second, rollbacks)
        .below = i + 1 == runs.size() ? turns : "";
  }
  return table;
}

std::vector<std::string> data_beside_names(const std::vector<std::string>& runs) {
  std::vector<std::string> texts;
  std::optional<DataOfRun> first;
  bool differs = false;
  for (const auto& run : runs) {
    const auto data = data_of(run);
    if (!first) first = data;
    differs = differs || (data && *data != *first);
    texts.push_back(data ? fmt::format(" ({}, {} tokens{})", data->file.filename().string(), data->vocabulary,
                                       data->windows ? fmt::format(", {} windows", data->windows) : "")
                         : "");
  }
  if (!differs) texts.assign(runs.size(), "");
  return texts;
}

std::string remark_on_data(const std::vector<std::string>& texts) {
  const bool differ = std::ranges::any_of(texts, [](auto& text) { return !text.empty(); });
  return differ ? "losses of other texts, tokens or validation windows do not compare\n" : "";
}

}  // namespace mxtape
