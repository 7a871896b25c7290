#include "program/sweep/sweep_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "program/plot/gnuplot.h"

namespace mxtape {
namespace {

using namespace gnuplot;

struct Shown {
  std::string title;
  std::size_t colour;
  const BandCurve& curve;
  BandCurve training{};  ///< without the first eighth, whose gaps would flatten the rest
};

std::int64_t last_step_of(const std::vector<Shown>& shown) {
  std::int64_t last = 1;
  for (const Shown& s : shown) last = std::max(last, s.curve.back().step);
  return last;
}

/// The data blocks $arm0, $arm1 ...: step, mean, low, high; each `apart` steps after the one before, all
/// around the true step.
std::string data_of(const std::vector<Shown>& shown, double apart) {
  std::string script;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const double shift = (double(i) - double(shown.size() - 1) / 2) * apart;
    script += fmt::format("$arm{} << EOD\n", i);
    for (const BandPoint& p : shown[i].curve)
      script += fmt::format("{} {} {} {}\n", double(p.step) + shift, p.mean, p.low, p.high);
    script += "EOD\n";
    if (shown[i].training.empty()) continue;
    script += fmt::format("$training{} << EOD\n", i);
    for (const BandPoint& p : shown[i].training) script += fmt::format("{} {}\n", p.step, p.mean);
    script += "EOD\n";
  }
  return script;
}

void add_lines(std::vector<std::string>& curves, const std::vector<Shown>& shown) {
  for (std::size_t i = 0; i < shown.size(); ++i)
    curves.push_back(fmt::format("$arm{} with linespoints linewidth 2 {} pointsize 0.5 {} title {}", i,
                                 mark_of(shown[i].colour), line_of(shown[i].colour), quoted(shown[i].title)));
}

/// Holds means and their ends after the first part of the steps: what comes before would flatten the rest.
std::array<double, 2> range_of(const std::vector<Shown>& shown, double hidden_part, double low, double high) {
  for (const Shown& s : shown)
    for (const BandPoint& p : s.curve)
      if (double(p.step) > hidden_part * double(s.curve.back().step))
        low = std::min(low, p.low), high = std::max(high, p.high);
  for (const Shown& s : shown)
    for (const BandPoint& p : s.training) low = std::min(low, p.mean), high = std::max(high, p.mean);
  const double margin = std::max(0.06 * (high - low), 1e-6);
  return {low - margin, high + margin};
}

std::string key_of(const std::vector<Shown>& shown, std::size_t more) {
  std::size_t longest = 0;
  for (const Shown& s : shown) longest = std::max(longest, s.title.size());
  return key_below(shown.size() + more, longest > 34 ? 1 : 2);  // columns are as wide as the longest name
}

}  // namespace

std::string gap_script(const SweepPlan& plan, const SweepResults& results, const std::string& terminal,
                       const std::filesystem::path& output) {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < results.arms.size(); ++i)
    if (const ArmResult& arm = results.arms[i]; arm.gap && !arm.validation_gap.empty())
      shown.push_back({fmt::format("{}  {:+.4f}", arm.name, arm.gap->mean), i, arm.validation_gap,
                       BandCurve(arm.training_gap.begin() + std::ptrdiff_t(arm.training_gap.size() / 8),
                                 arm.training_gap.end())});
  std::size_t points = 1;
  for (const Shown& s : shown) points = std::max(points, s.curve.size());
  // Whiskers on one another could not be told apart.
  const double tolerance = plan.sweep.tolerance, last = double(last_step_of(shown)),
               count = double(shown.size()), apart = last / double(points) * std::min(0.04, 0.3 / count),
               end = 1.01 * last + apart * count / 2;
  std::string script = data_of(shown, apart);
  script += fmt::format("$tolerance << EOD\n0 {1} {2}\n{0} {1} {2}\nEOD\n", end, -tolerance, tolerance);
  script += frame(terminal, output,
                  fmt::format("{}: validation loss above {}, with 95 % intervals; faint: training",
                              plan.sweep.name, plan.sweep.baseline),
                  "nats per token",
                  // The intervals of early gaps are wide, and would flatten the rest.
                  range_of(shown, 0.5, -tolerance, tolerance), end);
  script += key_of(shown, 2) + "set errorbars small\n";
  std::vector<std::string> curves{
      fmt::format("$tolerance with filledcurves fillcolor rgb '#E8555555' title 'tolerance {}'", tolerance),
      fmt::format("0 with lines linewidth 1.5 linecolor rgb '#333333' title {}",
                  quoted("0: " + plan.sweep.baseline + ", the baseline"))};
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (!shown[i].training.empty())
      curves.push_back(
          fmt::format("$training{} with lines linewidth 1.2 {} notitle", i, line_of(shown[i].colour, "A0")));
  for (std::size_t i = 0; i < shown.size(); ++i)
    curves.push_back(fmt::format("$arm{} with yerrorbars pointtype -1 linewidth 1.2 {} notitle", i,
                                 line_of(shown[i].colour, "60")));
  add_lines(curves, shown);
  return script + plot_command(curves);
}

std::string loss_script(const SweepPlan& plan, const SweepResults& results, const std::string& terminal,
                        const std::filesystem::path& output) {
  std::vector<Shown> shown;
  std::vector<std::string> curves;
  for (std::size_t i = 0; i < results.arms.size(); ++i)
    if (const ArmResult& arm = results.arms[i]; !arm.validation.empty()) {
      if (arm.name == plan.sweep.baseline || i == results.worst(plan.sweep.baseline))
        curves.push_back(fmt::format("$arm{} using 1:3:4 with filledcurves fillcolor rgb '#D8{}' notitle",
                                     shown.size(), colour_of(i)));
      shown.push_back({fmt::format("{}  {:.4f}", arm.name, arm.mean_loss.value_or(NAN)), i, arm.validation});
    }
  std::string script = data_of(shown, 0);
  script += frame(terminal, output,
                  plan.sweep.name + ": validation loss; bands: seeds of the baseline and of the worst arm",
                  "nats per token", range_of(shown, 0.125, INFINITY, -INFINITY),
                  1.01 * double(last_step_of(shown)));
  add_lines(curves, shown);
  return script + key_of(shown, 0) + plot_command(curves);
}

}  // namespace mxtape
