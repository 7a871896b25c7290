#include "program/sweep/report_charts.h"

#include <algorithm>
#include <cmath>

#include "program/sweep/svg_chart.h"

namespace mxtape {
namespace {

std::array<double, 2> with_margin(double low, double high) {
  const double margin = std::max(0.06 * (high - low), 1e-6);
  return {low - margin, high + margin};
}

}  // namespace

/// Without the first eighth of training, whose gaps would flatten the rest, and with the intervals of the
/// last half.
std::string gap_chart(const SweepPlan& plan, const SweepResults& results) {
  svg::Chart chart{
      .title = fmt::format("loss above the baseline '{}'", plan.sweep.baseline),
      .y_label = "nats per token; bold: validation with the 95 % interval of its mean; faint: training",
      .curves = {},
      .band = plan.sweep.tolerance};
  double low = -plan.sweep.tolerance, high = plan.sweep.tolerance;
  const auto show = [&](double a, double b) { low = std::min(low, a), high = std::max(high, b); };
  const double steps = double(plan.steps());
  for (std::size_t i = 0; i < results.arms.size(); ++i) {
    const ArmResult& arm = results.arms[i];
    if (arm.training_gap.empty()) continue;
    const auto skipped = arm.training_gap.begin() + std::ptrdiff_t(arm.training_gap.size() / 8);
    chart.curves.push_back({.arm = i, .points = BandCurve(skipped, arm.training_gap.end()), .bold = false});
    for (const BandPoint& p : chart.curves.back().points) show(p.mean, p.mean);
    chart.curves.push_back({.arm = i, .points = arm.validation_gap, .ends = svg::Ends::whiskers});
    for (const BandPoint& p : arm.validation_gap)
      if (2 * p.step > plan.steps()) show(p.low, p.high);
  }
  if (chart.curves.empty()) return "";
  const double count = double(chart.curves.size() / 2),
               points = double(std::max<std::size_t>(1, chart.curves[1].points.size())),
               apart = steps / points * std::min(0.04, 0.3 / count);
  for (std::size_t i = 1; i < chart.curves.size(); i += 2)
    chart.curves[i].shift = (double(i / 2) - (count - 1) / 2) * apart;
  chart.range = with_margin(low, high);
  return svg::line_chart(chart);
}

std::string loss_chart(const SweepPlan& plan, const SweepResults& results) {
  svg::Chart chart{.title = "validation loss",
                   .y_label =
                       "nats per token, means of the seeds; bands: range of the seeds of the baseline "
                       "and of the worst arm",
                   .curves = {}};
  double low = INFINITY, high = -INFINITY;
  for (std::size_t i = 0; i < results.arms.size(); ++i) {
    const ArmResult& arm = results.arms[i];
    if (arm.validation.size() < 2) continue;
    const bool band = arm.name == plan.sweep.baseline || i == results.worst(plan.sweep.baseline);
    chart.curves.push_back(
        {.arm = i, .points = arm.validation, .ends = band ? svg::Ends::band : svg::Ends::none});
    for (const BandPoint& p : arm.validation)
      if (8 * p.step > arm.validation.back().step) low = std::min(low, p.low), high = std::max(high, p.high);
  }
  if (chart.curves.empty()) return "";
  chart.range = with_margin(low, high);
  return svg::line_chart(chart);
}

std::string interval_chart(const SweepPlan& plan, const SweepResults& results) {
  std::vector<svg::Interval> rows;
  for (const std::size_t i : results.sorted(plan.sweep.baseline))
    if (const auto& gap = results.arms[i].gap; gap && gap->pairs > 1)
      rows.push_back({results.arms[i].name, i, gap->mean, gap->interval95[0], gap->interval95[1]});
  return rows.empty() ? "" : svg::interval_chart(rows, plan.sweep.tolerance);
}

}  // namespace mxtape
