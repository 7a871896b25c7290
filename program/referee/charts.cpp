#include "program/referee/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace mxtape::referee {
namespace {

constexpr const char* nats = "nats per token";

std::vector<Chart::Line> lines(const Results& r,
                               const std::function<std::vector<Chart::Mark>(std::size_t arm)>& marks_of) {
  std::vector<Chart::Line> lines;
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    auto marks = marks_of(arm);
    std::ranges::stable_sort(marks, {}, &Chart::Mark::x);
    const std::size_t colour = arm == r.baseline ? Chart::baseline : arm - (arm > r.baseline);
    lines.push_back({r.arms[arm].name, colour, marks});
  }
  return lines;
}

/// Gaps at the points that are wanted, against one of their numbers.
std::vector<Chart::Line> gap_lines(const Results& r, const std::function<bool(const Point&)>& wanted,
                                   std::int64_t Point::*x) {
  return lines(r, [&](std::size_t arm) {
    std::vector<Chart::Mark> marks;
    for (const Gap& g : r.gaps) {
      const Point& point = r.points[g.point];
      if (g.arm != arm || arm == r.baseline || g.stage != r.judged() || !wanted(point)) continue;
      marks.push_back({double(point.*x), g.gap.mean});
      if (g.gap.pairs > 1) marks.back().interval = g.gap.interval95;
    }
    return marks;
  });
}

}  // namespace

std::vector<Chart> gap_charts(const Results& r) {
  std::vector<Chart> charts;
  for (std::size_t size = 0; size < r.sizes.size(); ++size)
    charts.push_back({"Gap over tokens, " + r.sizes[size].name, "tokens", nats,
                      gap_lines(
                          r, [&](const Point& p) { return p.size == size; }, &Point::tokens),
                      0.0});
  for (const double length : r.asked.lengths)
    charts.push_back(
        {fmt::format("Gap over sizes, {:g} tokens per parameter", length), "parameters", nats,
         gap_lines(
             r, [&](const Point& p) { return p.tokens_per_parameter == length; }, &Point::parameters),
         0.0});
  return charts;
}

std::vector<Chart> loss_charts(const Results& r, bool against_seconds) {
  std::vector<Chart> charts;
  for (std::size_t size = 0; size < r.sizes.size(); ++size) {
    const auto marks = [&](std::size_t arm) {
      std::vector<Chart::Mark> found;
      for (std::size_t point = 0; point < r.points.size(); ++point) {
        const auto losses = r.losses(point, arm, r.judged());
        double sum = 0;
        for (const auto& loss : losses) sum += loss.value_or(NAN) / double(losses.size());
        const double seconds = double(r.points[point].steps) * step_ms(r, size, arm).value_or(NAN) / 1e3,
                     x = against_seconds ? seconds : double(r.points[point].tokens);
        if (r.points[point].size == size && !losses.empty() && std::isfinite(sum) && std::isfinite(x))
          found.push_back({x, sum});
      }
      return found;
    };
    charts.push_back(
        {fmt::format("Loss against {}, {}", against_seconds ? "seconds" : "tokens", r.sizes[size].name),
         against_seconds ? "seconds of steps" : "tokens", nats, lines(r, marks)});
  }
  return charts;
}

std::vector<Chart> law_charts(const Results& r) {
  Chart chart{"Residuals of the law", "tokens", "% of the loss", {}, 0.0};
  chart.lines = lines(r, [&](std::size_t arm) {
    std::vector<Chart::Mark> marks;
    for (const Residual& x : r.law.residuals)
      if (x.arm == arm)
        marks.push_back({double(r.points[x.point].tokens), 100 * (x.measured / x.fitted - 1)});
    return marks;
  });
  for (Chart::Line& line : chart.lines) line.joined = false;
  return {chart};
}

std::vector<Chart> tuning_charts(const Results& r) {
  return {{"Loss at the smallest point", r.asked.tuned_key, nats, lines(r, [&](std::size_t arm) {
             std::vector<Chart::Mark> marks;
             for (const Tuned& tuned : r.tunes)
               if (tuned.arm == arm && tuned.loss) marks.push_back({tuned.value, *tuned.loss});
             return marks;
           })}};
}

std::optional<double> step_ms(const Results& r, std::size_t size, std::size_t arm) {
  for (const StepTime& time : r.times.steps)
    if (time.size == size && time.arm == arm && time.stage == r.judged()) return time.ms;
  return std::nullopt;
}

}  // namespace mxtape::referee
