#include "program/plot/plot.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "program/plot/gnuplot.h"

namespace mxtape {
namespace {

using namespace gnuplot;

std::map<std::int64_t, double> by_step(const std::vector<RunLog::Point>& points) {
  std::map<std::int64_t, double> losses;
  for (const auto& point : points) losses.emplace(point.step, point.loss);
  return losses;
}

std::string steps_text(const RunLog& run) {
  return fmt::format("{} has steps {} to {}", run.name, run.train.front().step, run.train.back().step);
}

/// Gaps that are shown: zero, every validation, and training after its first eighth, whose gaps would
/// flatten the rest.
std::array<double, 2> gap_range(std::span<const RunDifference> runs) {
  double low = 0, high = 0;
  const auto show = [&](double gap) { low = std::min(low, gap), high = std::max(high, gap); };
  for (const auto& run : runs) {
    for (std::size_t i = run.training.size() / 8; i < run.training.size(); ++i) show(run.training[i].loss);
    for (const auto& point : run.validation) show(point.loss);
  }
  const double margin = std::max(0.08 * (high - low), 1e-6);
  return {low - margin, high + margin};
}

/// "mxfp4 less bf16"
std::string heading_of(std::span<const RunDifference> runs) {
  const std::string which = runs.size() == 1 ? runs.front().name : fmt::format("{} runs", runs.size());
  return fmt::format("{} less {}", which, runs.front().base);
}

}  // namespace

RunDifference difference(const RunLog& run, const RunLog& base, std::int64_t width) {
  RunDifference result{.name = run.name, .base = base.name, .training = {}, .validation = {}};
  std::vector<RunLog::Point> gaps;  // of the steps that both have
  const auto base_training = by_step(base.train), base_validation = by_step(base.validation);
  for (const auto& point : run.train) {
    const auto other = base_training.find(point.step);
    if (other != base_training.end()) gaps.push_back({point.step, point.loss - other->second});
  }
  require(!gaps.empty(), ExitCode::data, "plot: {} and the base {} share no step: {}, {}", run.name,
          base.name, steps_text(run), steps_text(base));
  result.shared_steps = std::ssize(gaps), result.last_step = gaps.back().step;
  const auto whole = gaps.begin() + std::ssize(gaps) % width;
  result.training = thinned({gaps.begin(), whole}, width);
  for (const auto& point : thinned({whole, gaps.end()}, width)) result.training.push_back(point);
  for (const auto& point : run.validation) {
    const auto other = base_validation.find(point.step);
    if (other == base_validation.end()) continue;
    result.validation.push_back({point.step, point.loss - other->second});
    result.validation_loss = point.loss, result.base_validation_loss = other->second;
  }
  return result;
}

std::string difference_script(std::span<const RunDifference> runs, std::int64_t width,
                              const std::string& terminal, const std::filesystem::path& output,
                              const std::string& title) {
  std::string script;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    put_points(script, fmt::format("train{}", i), runs[i].training);
    put_points(script, fmt::format("validation{}", i), runs[i].validation);
  }
  const std::string& base = runs.front().base;
  script += frame(terminal, output, title.empty() ? heading_of(runs) : title,
                  "loss above the base [nats per token]", gap_range(runs));
  // Two columns of short names fit, one of long ones.
  std::size_t longest = base.size();
  for (const auto& run : runs) longest = std::max(longest, run.name.size());
  script += key_below(runs.size() + 2, longest > 24 ? 1 : 2);
  script += "set key title 'bold: validation, with its last gap' left\n";
  std::vector<std::string> curves;
  // One colour further than among the losses of `mxtape plot BASE RUN...`, where the base has the first.
  for (std::size_t i = 0; i < runs.size(); ++i)
    curves.push_back(
        fmt::format("$train{} using 1:2 with lines linewidth 1.2 {} notitle", i, line_of(i + 1, "A0")));
  curves.push_back(fmt::format("0 with lines linewidth 1.5 linecolor rgb '#333333' title {}",
                               quoted("0: " + base + ", the base")));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool validated = !runs[i].validation.empty();
    const std::string curve =
        validated ? fmt::format("$validation{} using 1:2 with linespoints linewidth 2.5 {} pointsize 0.6", i,
                                mark_of(i + 1))
                  : "NaN with lines linewidth 1";
    const std::string name =
        validated ? fmt::format("{}  {:+.4f}", runs[i].name, runs[i].validation.back().loss) : runs[i].name;
    curves.push_back(fmt::format("{} {} title {}", curve, line_of(i + 1), quoted(name)));
  }
  curves.push_back(
      fmt::format("NaN with lines linewidth 1.2 linecolor rgb '#A0555555' title '{}'",
                  width == 1 ? "faint: training" : fmt::format("faint: training, means of {} steps", width)));
  return script + plot_command(curves);
}

Table difference_table(std::span<const RunDifference> runs, std::int64_t window,
                       const std::vector<std::string>& data) {
  Table table(
      "name|run; shared_steps; |at step|>; validation_loss|validation|>.4f; "
      "base_validation_loss|base|>.4f|1; validation_gap|gap|>+.4f; training_gap|training gap|>+.4f; "
      "validation; training");
  const auto points = [](const std::vector<RunLog::Point>& all) {
    Table table("step; gap");
    for (const auto& point : all) table.row(point.step, point.loss);
    return table;
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunDifference& run = runs[i];
    const bool validated = !run.validation.empty();
    const auto known = [&](double value) {
      return Value(validated ? std::optional(value) : std::nullopt, "no step at which both were validated");
    };
    const std::string what = window == 1 ? "of the last step that both have"
                                         : fmt::format("mean of the last window of {} steps", window);
    Table::Row& row =
        table.row(Value(run.name, "", data.empty() ? run.name : run.name + data[i + 1]), run.shared_steps,
                  validated ? run.validation.back().step : run.last_step, known(run.validation_loss),
                  known(run.base_validation_loss), known(run.validation_loss - run.base_validation_loss),
                  run.training.back().loss, points(run.validation), points(run.training));
    if (i == 0)
      row.above = fmt::format("losses above those of {}{}\n", run.base, data.empty() ? "" : data[0]);
    if (i + 1 == runs.size()) row.below = fmt::format("training gap: {}\n", what);
  }
  return table;
}

}  // namespace mxtape
