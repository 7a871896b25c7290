#include "program/sweep/sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "program/plot/gnuplot.h"

namespace mxtape {
namespace {

using namespace gnuplot;

/// The data block $name of step, mean, low and high.
void put_band(std::string& script, const std::string& name, const BandCurve& curve) {
  script += fmt::format("${} << EOD\n", name);
  for (const BandPoint& p : curve) script += fmt::format("{} {} {} {}\n", p.step, p.mean, p.low, p.high);
  script += "EOD\n";
}

struct Shown {
  std::string title;
  std::size_t colour;
  const BandCurve& curve;
};

/// A band and a line with a mark at each point, for each curve.
std::string script_of(const std::vector<Shown>& shown, const std::string& settings,
                      std::vector<std::string> behind) {
  std::string script;
  for (std::size_t i = 0; i < shown.size(); ++i) put_band(script, fmt::format("band{}", i), shown[i].curve);
  script += settings;
  for (std::size_t i = 0; i < shown.size(); ++i)
    behind.push_back(fmt::format("$band{} using 1:3:4 with filledcurves fillcolor rgb '#D8{}' notitle", i,
                                 colour_of(shown[i].colour)));
  for (std::size_t i = 0; i < shown.size(); ++i)
    behind.push_back(
        fmt::format("$band{} using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.5 linecolor rgb "
                    "'#{}' title {}",
                    i, colour_of(shown[i].colour), quoted(shown[i].title)));
  return script + plot_command(behind);
}

/// Shows the means after the first eighth of the steps, and the last band: what comes before would flatten
/// the rest.
std::array<double, 2> range_of(const std::vector<Shown>& shown, double low, double high) {
  const auto show = [&](double value) { low = std::min(low, value), high = std::max(high, value); };
  for (const Shown& s : shown) {
    for (const BandPoint& p : s.curve)
      if (8 * p.step > s.curve.back().step) show(p.mean);
    show(s.curve.back().low);
    show(s.curve.back().high);
  }
  const double margin = std::max(0.06 * (high - low), 1e-6);
  return {low - margin, high + margin};
}

std::string key_below(std::size_t curves) {
  return fmt::format("set key below left vertical maxrows {} width 2\n",
                     std::max<std::size_t>(3, (curves + 1) / 2));
}

}  // namespace

std::string gap_script(const SweepPlan& plan, const SweepResults& results, const std::string& terminal,
                       const std::filesystem::path& output) {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < results.arms.size(); ++i)
    if (const ArmResult& arm = results.arms[i]; arm.gap && !arm.validation_gap.empty())
      shown.push_back({fmt::format("{}  {:+.4f}", arm.name, arm.gap->mean), i, arm.validation_gap});
  const double tolerance = plan.sweep.tolerance;
  const std::string settings =
      frame(terminal, output, plan.sweep.name, "validation loss above the baseline [nats per token]",
            range_of(shown, -tolerance, tolerance)) +
      key_below(shown.size() + 2);
  std::vector<std::string> behind{
      fmt::format(
          "'+' using 1:({0}):(-({0})) with filledcurves fillcolor rgb '#E8555555' title 'tolerance {0}'",
          tolerance),
      fmt::format("0 with lines linewidth 1.5 linecolor rgb '#333333' title {}",
                  quoted("0: " + plan.sweep.baseline + ", the baseline"))};
  return script_of(shown, settings, std::move(behind));
}

std::string loss_script(const SweepPlan& plan, const SweepResults& results, const std::string& terminal,
                        const std::filesystem::path& output) {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < results.arms.size(); ++i)
    if (const ArmResult& arm = results.arms[i]; !arm.validation.empty())
      shown.push_back({fmt::format("{}  {:.4f}", arm.name, arm.mean_loss.value_or(NAN)), i, arm.validation});
  const std::string settings = frame(terminal, output, plan.sweep.name, "validation loss [nats per token]",
                                     range_of(shown, INFINITY, -INFINITY)) +
                               key_below(shown.size());
  return script_of(shown, settings, {});
}

}  // namespace mxtape
