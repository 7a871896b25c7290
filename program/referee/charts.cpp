#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/text/base64.h"
#include "program/plot/gnuplot.h"
#include "program/referee/shown.h"

namespace mxtape::referee {
namespace {

using gnuplot::quoted;

/// A picture, of numbers above 0 over a logarithm: a line an arm, of the stage that verdicts are of.
struct Chart {
  struct Mark {
    double x, y, low = y, high = y;  ///< the latter two: whiskers
  };
  std::string title, x_label;
  std::optional<double> level{};  ///< a rule across
  std::string y_label = "nats per token";
  bool joined = true;
  std::map<std::size_t, std::vector<Mark>> lines{};  ///< by arm; its name stands at the end
};

/// What stands at the end of a line: of a long name its ends.
std::string label_of(const Arm& arm) {
  const std::string& name = arm.name;
  if (name.size() <= 33) return name;
  const auto whole = [&](std::size_t at) {  // the next place where a character begins
    while (at < name.size() && (name[at] & 0xc0) == 0x80) ++at;
    return at;
  };
  return name.substr(0, whole(15)) + "..." + name.substr(whole(name.size() - 15));
}

/// Labels at their lines' ends, moved apart by at least `height`, and below `top`.
std::vector<double> apart(std::vector<double> y, double height, double top) {
  std::vector<double*> rising;
  for (double& one : y) rising.push_back(&one);
  std::ranges::stable_sort(rising, {}, [](const double* one) { return *one; });
  for (std::size_t k = 1; k < rising.size(); ++k) *rising[k] = std::max(*rising[k], *rising[k - 1] + height);
  for (std::size_t k = rising.size(); k-- > 0; top = *rising[k] - height)
    *rising[k] = std::min(*rising[k], top);
  return y;
}

/// Eight colours, the latter four dashed; later arms share them, with other marks.
std::string script_of(const Results& r, const Chart& chart, const std::string& terminal,
                      const std::filesystem::path& file) {
  double low = chart.level.value_or(INFINITY), high = chart.level.value_or(-INFINITY);
  std::set<double> places;
  std::size_t longest = 0;
  std::vector<double> ends;
  for (const auto& [arm, marks] : chart.lines) {
    longest = std::max(longest, label_of(r.arms[arm]).size()), ends.push_back(marks.back().y);
    for (const auto& mark : marks)
      places.insert(mark.x), low = std::min(low, mark.low), high = std::max(high, mark.high);
  }
  const double margin = std::max(0.05 * (high - low), 1e-9 + 1e-6 * std::abs(high)), first = *places.begin(),
               last = *places.rbegin();
  low -= margin, high += margin;
  const bool logarithmic = first > 0;  // tuned values may hold 0
  const auto along = [&](double x) {
    return logarithmic ? std::log(x / first) / std::log(last / first) : (x - first) / (last - first);
  };
  std::string script = fmt::format(
      "set terminal {} size 560,380 enhanced background '#FFFFFF' font 'Helvetica,13'\nset output {}\n"
      "set title {} noenhanced\nset border 3 linecolor rgb '#555555'\nset tics nomirror out scale 0.6\n"
      "set grid y linecolor rgb '#E6E6E6' linetype 1\nset xlabel {} noenhanced\nset ylabel {}\n"
      "{}set xrange [{}:{}]\nset yrange [{}:{}]\nset rmargin {}\nunset key\nset bars 0\n",
      terminal, quoted(file.string()), quoted(chart.title), quoted(chart.x_label), quoted(chart.y_label),
      logarithmic ? "set logscale x\n" : "", logarithmic ? 0.95 * first : 1.05 * first - 0.05 * last,
      1.05 * last, low, high, longest + 4);
  std::string ticks;
  for (double free = 0; const double x : places) {
    if (along(x) < free) continue;
    free = along(x) + 40 / std::max(100.0, 500 - 8.0 * double(longest));
    ticks += fmt::format("{}{} {}", ticks.empty() ? "" : ", ", quoted(with_prefix(x)), x);
  }
  script += "set xtics (" + ticks + ")\n";
  std::vector<std::string> curves;
  if (chart.level) curves.push_back(fmt::format("{} linewidth 1 linecolor rgb '#333333'", *chart.level));
  const auto labels = apart(ends, 0.06 * (high - low), high);
  for (std::size_t i = 0; const auto& [arm, marks] : chart.lines) {
    const bool baseline = arm == r.baseline;
    const std::size_t place = arm - (arm > r.baseline);
    const std::string_view colour = baseline ? "1B1B1B" : colours[place % 8];
    script += fmt::format("$line{} << EOD\n", i);
    for (const auto& mark : marks)
      script += fmt::format("{} {} {} {}\n", mark.x, mark.y, mark.low, mark.high);
    script += fmt::format(
        "EOD\nset label {} at graph 1.04, first {} noenhanced textcolor rgb '#{}'\n"
        "set arrow from {}, {} to graph 1.03, first {} nohead linecolor rgb '#{}'\n",
        quoted(label_of(r.arms[arm])), labels[i], colour, marks.back().x, ends[i], labels[i], colour);
    const std::string style = fmt::format("linecolor rgb '#{}' dashtype {} {}", colour,
                                          !baseline && place % 8 >= 4 ? "(12,4)" : "solid",
                                          gnuplot::mark_of(6 * (place % 4 + place / 8)));
    curves.push_back(fmt::format("$line{} with yerrorbars {} pointsize 0", i, style));
    curves.push_back(fmt::format("$line{} with {} {} linewidth 2 pointsize 0.7", i++,
                                 chart.joined ? "linespoints" : "points", style));
  }
  return script + gnuplot::plot_command(curves);
}

std::string pictures(const Results& r, Curves* curves, std::vector<Chart> charts) {
  std::string out;
  try {
    for (Chart& chart : charts) {
      for (auto& line : chart.lines) std::ranges::stable_sort(line.second, {}, &Chart::Mark::x);
      if (std::ranges::any_of(chart.lines, [](const auto& line) { return line.second.size() > 1; }))
        out +=
            fmt::format("<img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"/>\n", html_escaped(chart.title),
                        to_base64(gnuplot::svg([&](const std::string& terminal, const auto& file) {
                          return script_of(r, chart, terminal, file);
                        })));
    }
  } catch (const Error& e) {
    if (curves && !dynamic_cast<const gnuplot::NotInstalled*>(&e)) curves->fault = e;
    return fmt::format("<p class=\"dim\">No pictures: {}</p>\n", html_escaped(e.what()));
  }
  return out.empty() ? "" : "<div class=\"charts\">\n" + out + "</div>\n";
}

}  // namespace

std::string gap_pictures(const Results& r, Curves* curves) {
  std::vector<Chart> charts;
  for (const ModelSize& size : r.sizes) charts.push_back({"Gap over tokens, " + size.name, "tokens", 0});
  for (const double length : r.asked.lengths)
    charts.push_back({fmt::format("Gap over sizes, {:g} tokens per parameter", length), "parameters", 0});
  for (const Gap& g : r.gaps) {
    if (g.stage != r.judged() || g.gap.pairs == 0) continue;
    const Point& point = r.points[g.point];
    const auto [low, high] = g.gap.pairs > 1 ? g.gap.interval95 : std::array{g.gap.mean, g.gap.mean};
    charts[point.size].lines[g.arm].push_back({double(point.tokens), g.gap.mean, low, high});
    charts[r.sizes.size() + g.point % r.asked.lengths.size()].lines[g.arm].push_back(
        {double(point.parameters), g.gap.mean, low, high});
  }
  return pictures(r, curves, charts);
}

std::string loss_pictures(const Results& r, Curves* curves, bool by_seconds) {
  std::vector<Chart> charts;
  for (const ModelSize& size : r.sizes)
    charts.push_back({fmt::format("Loss against {}, {}", by_seconds ? "seconds" : "tokens", size.name),
                      by_seconds ? "seconds of steps" : "tokens"});
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm)
    for (std::size_t p = 0; p < r.points.size(); ++p) {
      const Point& point = r.points[p];
      const StepTime* time = r.step_time(point.size, arm);
      const auto losses = r.losses(p, arm, r.judged());
      if (!time || std::count(losses.begin(), losses.end(), std::nullopt)) continue;
      const double x = by_seconds ? double(point.steps) * time->ms / 1e3 : double(point.tokens);
      charts[point.size].lines[arm].push_back({x, *mean_of(losses)});
    }
  return pictures(r, curves, charts);
}

std::string law_picture(const Results& r, Curves* curves) {
  Chart chart{"Residuals of the law", "tokens", 0, "% of the loss", false};
  for (const Residual& x : r.law.residuals)
    chart.lines[x.arm].push_back({double(r.points[x.point].tokens), 100 * (x.measured / x.fitted - 1)});
  return pictures(r, curves, {chart});
}

std::string tuning_picture(const Results& r, Curves* curves) {
  Chart chart{"Loss at the smallest point", r.asked.tuned_key};
  for (const Tuned& tuned : r.tunes)
    if (tuned.loss) chart.lines[tuned.arm].push_back({tuned.value, *tuned.loss});
  return pictures(r, curves, {chart});
}

std::string with_prefix(double x) {
  constexpr std::pair<double, const char*> prefixes[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [factor, name] : prefixes)
    if (x >= 0.9995 * factor) return fmt::format("{:.3g}{}", x / factor, name);
  return fmt::format("{:.3g}", x);
}

}  // namespace mxtape::referee
