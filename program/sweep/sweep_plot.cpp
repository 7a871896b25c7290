#include <algorithm>
#include <cmath>

#include "core/files/atomic_file.h"
#include "program/plot/gnuplot.h"
#include "program/sweep/curves.h"

namespace mxtape {
namespace {

using namespace gnuplot;

struct Shown {
  std::string title;
  std::size_t colour;
  BandCurve curve;
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

/// `shown` is not empty.
std::string gap_script(const referee::Results& r, const std::vector<Shown>& shown,
                       const std::string& terminal, const std::filesystem::path& output) {
  std::size_t points = 1;
  for (const Shown& s : shown) points = std::max(points, s.curve.size());
  // Whiskers on one another could not be told apart.
  const double tolerance = r.asked.tolerance, last = double(last_step_of(shown)),
               count = double(shown.size()), apart = last / double(points) * std::min(0.04, 0.3 / count),
               end = 1.01 * last + apart * count / 2;
  std::string script = data_of(shown, apart);
  script += fmt::format("$tolerance << EOD\n0 {1} {2}\n{0} {1} {2}\nEOD\n", end, -tolerance, tolerance);
  script += frame(terminal, output,
                  fmt::format("{}: validation loss above {}, with 95 % intervals; faint: training",
                              r.asked.name, r.asked.baseline),
                  "nats per token",
                  // The intervals of early gaps are wide, and would flatten the rest.
                  range_of(shown, 0.5, -tolerance, tolerance), end);
  script += key_of(shown, 2) + "set errorbars small\n";
  std::vector<std::string> curves{
      fmt::format("$tolerance with filledcurves fillcolor rgb '#E8555555' title 'tolerance {}'", tolerance),
      fmt::format("0 with lines linewidth 1.5 linecolor rgb '#333333' title {}",
                  quoted("0: " + r.asked.baseline + ", the baseline"))};
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

/// `banded`: arms with the range of their seeds.
std::string loss_script(const referee::Results& r, const std::vector<Shown>& shown,
                        const std::vector<std::size_t>& banded, const std::string& terminal,
                        const std::filesystem::path& output) {
  std::vector<std::string> curves;
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (std::ranges::find(banded, shown[i].colour) != banded.end())
      curves.push_back(fmt::format("$arm{} using 1:3:4 with filledcurves fillcolor rgb '#D8{}' notitle", i,
                                   colour_of(shown[i].colour)));
  std::string script = data_of(shown, 0);
  script += frame(
      terminal, output, r.asked.name + ": validation loss; bands: seeds of the baseline and of the worst arm",
      "nats per token", range_of(shown, 0.125, INFINITY, -INFINITY), 1.01 * double(last_step_of(shown)));
  add_lines(curves, shown);
  return script + key_of(shown, 0) + plot_command(curves);
}

}  // namespace

Curves draw_curves(const referee::Results& r, const std::filesystem::path& folder) {
  Curves curves;
  if (r.has_points()) return curves;
  constexpr std::int64_t windows = 50;
  Logs logs(r.arms.size());
  std::vector<std::vector<RunLog>> finished(r.arms.size());
  std::int64_t window = 1;
  for (const referee::Run& run : r.runs) {
    if (run.stage != r.judged() || !run.loss) continue;
    finished[run.arm].push_back(read_run_log(folder / run.folder));
    logs[run.arm].emplace(run.seed, finished[run.arm].back());
    window = std::max(window, steps_per_point(finished[run.arm], windows));
  }
  std::vector<Shown> gaps, losses;
  std::size_t worst = r.baseline;
  for (std::size_t arm = 0; arm < logs.size(); ++arm) {
    if (const BandCurve curve = validation_curve(finished[arm]); !curve.empty())
      losses.push_back({fmt::format("{}  {:.4f}", r.arms[arm].name, curve.back().mean), arm, curve});
    const referee::Gap* gap = r.gap(0, arm, r.judged());
    if (!gap || gap->gap.pairs == 0) continue;
    const referee::Gap* before = r.gap(0, worst, r.judged());
    if (!before || gap->gap.mean > before->gap.mean) worst = arm;
    const auto pairs = pairs_of(logs[arm], logs[r.baseline]);
    const BandCurve curve = gaps_of(pairs, &RunDifference::validation),
                    training = gaps_of(pairs, &RunDifference::training, window);
    if (!curve.empty())
      gaps.push_back({fmt::format("{}  {:+.4f}", r.arms[arm].name, gap->gap.mean), arm, curve,
                      BandCurve(training.begin() + std::ptrdiff_t(training.size() / 8), training.end())});
  }
  const auto draw = [&](const std::string& stem, const Script& script) {
    write_pictures(folder / stem, script);
    curves.pictures.push_back(read_whole_text(folder / (stem + ".svg")));
  };
  const std::string what_stays =
      std::filesystem::exists(folder / "gap.svg") ? "; those in the folder are of an earlier time" : "";
  try {
    if (!gaps.empty())
      draw("gap", [&](const std::string& terminal, const auto& file) {
        return gap_script(r, gaps, terminal, file);
      });
    if (!gaps.empty() && std::ranges::any_of(losses, [](const Shown& s) { return s.curve.size() > 1; }))
      draw("loss", [&](const std::string& terminal, const auto& file) {
        return loss_script(r, losses, {r.baseline, worst}, terminal, file);
      });
  } catch (const NotInstalled& e) {
    curves.why = fmt::format("{}: {}", what_stays, e.what());
  } catch (const Error& e) {
    curves.fault =
        Error(e.code(), fmt::format("{}: not all pictures could be written{}; all else is there\n{}",
                                    folder.string(), what_stays, e.what()));
  }
  return curves;
}

}  // namespace mxtape
