#include "program/referee/charts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "core/text/base64.h"
#include "program/plot/gnuplot.h"
#include "program/referee/tables.h"

namespace mxtape::referee {
namespace {

using gnuplot::quoted;

constexpr const char* nats = "nats per token";

/// Labels at their lines' ends, moved apart by at least `height`, and below `top`.
std::vector<double> apart(const std::vector<double>& wanted, double height, double top) {
  std::vector<std::size_t> order(wanted.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return wanted[i]; });
  std::vector<double> y = wanted;
  for (std::size_t k = 1; k < order.size(); ++k)
    y[order[k]] = std::max(y[order[k]], y[order[k - 1]] + height);
  for (std::size_t k = order.size(); k-- > 0; top = y[order[k]] - height)
    y[order[k]] = std::min(y[order[k]], top);
  return y;
}

std::string script_of(const Chart& chart, const std::string& terminal, const std::filesystem::path& file) {
  double low = chart.level.value_or(INFINITY), high = chart.level.value_or(-INFINITY);
  std::set<double> places;
  std::size_t longest = 0;
  std::vector<double> ends;
  for (const auto& line : chart.lines) {
    longest = std::max(longest, line.name.size()), ends.push_back(line.marks.back().y);
    for (const auto& mark : line.marks) {
      const auto [from, to] = mark.interval.value_or(std::array{mark.y, mark.y});
      places.insert(mark.x), low = std::min(low, from), high = std::max(high, to);
    }
  }
  const double margin = std::max(0.05 * (high - low), 1e-9 + 1e-6 * std::abs(high)), first = *places.begin(),
               last = *places.rbegin();
  low -= margin, high += margin;
  std::string script = fmt::format(
      "set terminal {} size 560,380 enhanced background '#FFFFFF' font 'Helvetica,13'\nset output {}\n"
      "set title {} noenhanced\nset border 3 linecolor rgb '#555555'\nset tics nomirror out scale 0.6\n"
      "set grid y linecolor rgb '#E6E6E6' linetype 1\nset xlabel {} noenhanced\nset ylabel {}\n"
      "set logscale x\nset xrange [{}:{}]\nset yrange [{}:{}]\nset rmargin {}\nunset key\nset bars 0\n",
      terminal, quoted(file.string()), quoted(chart.title), quoted(chart.x_label), quoted(chart.y_label),
      0.95 * first, 1.05 * last, low, high, longest + 4);
  std::string ticks;
  for (double free = 0; const double x : places) {
    if (std::log(x / first) < free) continue;
    free = std::log(x / first) + 40 / std::max(100.0, 500 - 8.0 * double(longest)) * std::log(last / first);
    ticks += fmt::format("{}{} {}", ticks.empty() ? "" : ", ", quoted(with_prefix(x)), x);
  }
  script += "set xtics (" + ticks + ")\n";
  std::vector<std::string> curves;
  if (chart.level) curves.push_back(fmt::format("{} linewidth 1 linecolor rgb '#333333'", *chart.level));
  const auto labels = apart(ends, 0.06 * (high - low), high);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const Chart::Line& line = chart.lines[i];
    script += fmt::format("$line{} << EOD\n", i);
    for (const auto& [x, y, interval] : line.marks)
      script +=
          fmt::format("{} {} {} {}\n", x, y, interval ? (*interval)[0] : y, interval ? (*interval)[1] : y);
    script += fmt::format(
        "EOD\nset label {} at graph 1.04, first {} noenhanced textcolor rgb '#{}'\n"
        "set arrow from {}, {} to graph 1.03, first {} nohead linecolor rgb '#{}'\n",
        quoted(line.name), labels[i], line.colour, line.marks.back().x, ends[i], labels[i], line.colour);
    const std::string style = fmt::format("linecolor rgb '#{}' {}", line.colour, line.style);
    curves.push_back(fmt::format("$line{} with yerrorbars {} pointsize 0", i, style));
    curves.push_back(fmt::format("$line{} with {} {} linewidth 2 pointsize 0.7", i,
                                 chart.joined ? "linespoints" : "points", style));
  }
  return script + gnuplot::plot_command(curves);
}

/// Eight colours, the latter four dashed; later arms share them, with other marks.
std::vector<Chart::Line> lines(const Results& r,
                               const std::function<std::vector<Chart::Mark>(std::size_t arm)>& marks_of) {
  std::vector<Chart::Line> lines;
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    auto marks = marks_of(arm);
    std::ranges::stable_sort(marks, {}, &Chart::Mark::x);
    const std::size_t i = arm - (arm > r.baseline);
    if (!marks.empty())
      lines.push_back({r.arms[arm].name, std::string(arm == r.baseline ? "1B1B1B" : colours[i % 8]),
                       fmt::format("dashtype {} {}", arm != r.baseline && i % 8 >= 4 ? "(12,4)" : "solid",
                                   gnuplot::mark_of(6 * (i % 4 + i / 8))),
                       marks});
  }
  return lines;
}

}  // namespace

std::string pictures(const std::vector<Chart>& charts) {
  std::string out;
  try {
    for (const Chart& chart : charts)
      if (std::ranges::any_of(chart.lines, [](const auto& line) { return line.marks.size() > 1; }))
        out +=
            fmt::format("<img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"/>\n", html_escaped(chart.title),
                        to_base64(gnuplot::svg([&](const std::string& terminal, const auto& file) {
                          return script_of(chart, terminal, file);
                        })));
  } catch (const Error& e) {
    return fmt::format("<p class=\"dim\">No pictures: {}</p>\n", html_escaped(e.what()));
  }
  return out.empty() ? "" : "<div class=\"charts\">\n" + out + "</div>\n";
}

std::vector<Chart> gap_charts(const Results& r) {
  std::vector<Chart> charts;
  const auto add = [&](const std::string& title, const char* x_label, std::int64_t Point::*x,
                       const std::function<bool(const Point&)>& wanted) {
    const auto marks_of = [&](std::size_t arm) {
      std::vector<Chart::Mark> marks;
      for (const Gap& g : r.gaps) {
        const Point& point = r.points[g.point];
        if (g.arm != arm || g.stage != r.judged() || g.gap.pairs == 0 || !wanted(point)) continue;
        marks.push_back({double(point.*x), g.gap.mean});
        if (g.gap.pairs > 1) marks.back().interval = g.gap.interval95;
      }
      return marks;
    };
    charts.push_back({title, x_label, nats, lines(r, marks_of), true, 0.0});
  };
  for (std::size_t size = 0; size < r.sizes.size(); ++size)
    add("Gap over tokens, " + r.sizes[size].name, "tokens", &Point::tokens,
        [=](const Point& p) { return p.size == size; });
  for (const double length : r.asked.lengths)
    add(fmt::format("Gap over sizes, {:g} tokens per parameter", length), "parameters", &Point::parameters,
        [=](const Point& p) { return p.tokens_per_parameter == length; });
  return charts;
}

std::vector<Chart> loss_charts(const Results& r, bool against_seconds) {
  std::vector<Chart> charts;
  for (std::size_t size = 0; size < r.sizes.size(); ++size) {
    const auto marks = [&](std::size_t arm) {
      std::vector<Chart::Mark> found;
      for (std::size_t point = 0; point < r.points.size(); ++point) {
        const auto losses = r.losses(point, arm, r.judged());
        const bool whole = std::ranges::all_of(losses, [](const auto& loss) { return loss.has_value(); });
        const StepTime* time = r.step_time(size, arm);
        if (r.points[point].size == size && whole && time)
          found.push_back({against_seconds ? double(r.points[point].steps) * time->ms / 1e3
                                           : double(r.points[point].tokens),
                           *mean_of(losses)});
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
  const auto marks_of = [&](std::size_t arm) {
    std::vector<Chart::Mark> marks;
    for (const Residual& x : r.law.residuals)
      if (x.arm == arm)
        marks.push_back({double(r.points[x.point].tokens), 100 * (x.measured / x.fitted - 1)});
    return marks;
  };
  return {{"Residuals of the law", "tokens", "% of the loss", lines(r, marks_of), false, 0.0}};
}

std::vector<Chart> tuning_charts(const Results& r) {
  return {{"Loss at the smallest point", r.asked.tuned_key, nats, lines(r, [&](std::size_t arm) {
             std::vector<Chart::Mark> marks;
             for (const Tuned& tuned : r.tunes)
               if (tuned.arm == arm && tuned.loss) marks.push_back({tuned.value, *tuned.loss});
             return marks;
           })}};
}

std::string with_prefix(double x) {
  constexpr std::pair<double, const char*> prefixes[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [factor, name] : prefixes)
    if (x >= factor) return fmt::format("{:.3g}{}", x / factor, name);
  return fmt::format("{:.3g}", x);
}

}  // namespace mxtape::referee
