#include "program/referee/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace mxtape::referee {
namespace {

constexpr double width = 460, height = 300, left = 50, top = 36, bottom = 258, line_height = 12;

/// Marks that differ without colour: disc, square, triangle, diamond; filled, then hollow.
std::string mark_at(std::size_t colour, double x, double y) {
  constexpr std::string_view shapes[] = {"m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0z",
                                         "m-3 -3h6v6h-6z", "m0 -4l4 7h-8z",
                                         "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z"};
  return fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}{}\"/>\n", colour % 8 < 4 ? "full" : "hollow", x,
                     y, shapes[colour % 4]);
}

/// 1, 2 or 5 times a power of ten, so that about five of them are `range`.
double nice_step(double range) {
  const double rough = range / 5, power = std::pow(10, std::floor(std::log10(rough))), digit = rough / power;
  return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/// Labels at their lines' ends, moved apart.
std::vector<double> apart(const std::vector<double>& wanted) {
  std::vector<std::size_t> order(wanted.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return wanted[i]; });
  std::vector<double> y = wanted;
  for (std::size_t k = 1; k < order.size(); ++k)
    y[order[k]] = std::max(y[order[k]], y[order[k - 1]] + line_height);
  double limit = bottom + 2;
  for (std::size_t k = order.size(); k-- > 0; limit = y[order[k]] - line_height)
    y[order[k]] = std::min(y[order[k]], limit);
  return y;
}

}  // namespace

// On each ground no two of the eight are closer than 12 in CAM02-UCS, with full colour vision or without one
// kind of cones, nor than 3.5 in lightness, which is what grey print keeps; each has a contrast of three with
// the ground. Found by a random search over sRGB.
const std::string_view chart_style = R"css(
:root { --c0: #02f; --c1: #b20; --c2: #29a; --c3: #b82; --c4: #137; --c5: #623; --c6: #776; --c7: #068; }
@media screen and (prefers-color-scheme: dark) { :root { --c0: #65b; --c1: #b36; --c2: #4fb; --c3: #bd1; --c4: #489;
  --c5: #f6f; --c6: #dac; --c7: #993; } }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
.charts svg { width: 100%; max-width: 36rem; height: auto; break-inside: avoid; } svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .dim { fill: var(--dim); } svg .title { font-weight: 600; font-size: 12px; } svg .axis { stroke: var(--rule); }
svg .curve { fill: none; stroke: currentColor; stroke-width: 1.8; } svg .far { stroke-dasharray: 6 3; }
svg .again { stroke-dasharray: 2 2; } svg .thin { stroke: currentColor; stroke-width: 1; opacity: .65; }
svg .full { fill: currentColor; } svg .hollow { fill: var(--ground); stroke: currentColor; stroke-width: 1.5; }
)css";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string with_prefix(double x) {
  constexpr std::pair<double, const char*> prefixes[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [factor, name] : prefixes)
    if (x >= factor) return fmt::format("{:.3g}{}", x / factor, name);
  return fmt::format("{:.3g}", x);
}

std::string svg(const Chart& chart) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double low = chart.level.value_or(infinity), high = chart.level.value_or(-infinity);
  std::set<double> places;
  std::size_t longest = 0;
  for (const auto& line : chart.lines) {
    if (!line.marks.empty()) longest = std::max(longest, std::min<std::size_t>(line.name.size(), 26));
    for (const auto& mark : line.marks) {
      places.insert(mark.x);
      const auto ends = mark.interval.value_or(std::array{mark.y, mark.y});
      low = std::min({low, mark.y, ends[0]}), high = std::max({high, mark.y, ends[1]});
    }
  }
  if (places.empty()) return "";
  const double margin = std::max(0.05 * (high - low), 1e-9 + 1e-6 * std::abs(high)),
               right = width - 12 - 6.1 * double(longest);
  low -= margin, high += margin;
  const double first = std::log(*places.begin()) - 0.05, last = std::log(*places.rbegin()) + 0.05;
  const auto at_x = [&](double x) { return left + (std::log(x) - first) / (last - first) * (right - left); };
  const auto at_y = [&](double y) { return bottom - (y - low) / (high - low) * (bottom - top); };

  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title>\n<text class=\"title\" x=\"4\" "
      "y=\"13\">{}</text>\n",
      width, height, escaped(chart.title), escaped(chart.title));
  const double step = nice_step(high - low);
  for (double tick = std::ceil(low / step) * step; tick <= high; tick += step)
    out += fmt::format(
        "<path class=\"axis\" d=\"M{} {:.1f}H{:.1f}\"/><text class=\"dim\" x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:.{}f}</text>\n",
        left, at_y(tick), right, left - 5, at_y(tick) + 4, tick + 0.0,
        std::max(0, -int(std::floor(std::log10(step) + 1e-9))));
  double free = 0;
  for (const double x : places) {
    if (at_x(x) < free) continue;
    free = at_x(x) + 38;
    out += fmt::format(
        "<path class=\"axis\" d=\"M{0:.1f} {1}v4\"/><text class=\"dim\" x=\"{0:.1f}\" y=\"{2}\" "
        "text-anchor=\"middle\">{3}</text>\n",
        at_x(x), bottom, bottom + 16, with_prefix(x));
  }
  out += fmt::format("<text class=\"dim\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (left + right) / 2, height - 8, escaped(chart.x_label));
  out += fmt::format("<text class=\"dim\" x=\"4\" y=\"{}\">{}</text>\n", top - 9, escaped(chart.y_label));
  if (chart.level)
    out += fmt::format("<path stroke=\"var(--ink)\" d=\"M{} {:.1f}H{:.1f}\"/>\n", left, at_y(*chart.level),
                       right);

  std::vector<double> ends;
  std::vector<const Chart::Line*> drawn;
  for (const auto& line : chart.lines)
    if (!line.marks.empty()) drawn.push_back(&line), ends.push_back(at_y(line.marks.back().y));
  const auto labels = apart(ends);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto& line = *drawn[i];
    std::string path, marks;
    for (const auto& mark : line.marks) {
      const double x = at_x(mark.x), y = at_y(mark.y);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
      if (mark.interval)
        marks += fmt::format("<path class=\"thin\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x,
                             at_y((*mark.interval)[0]), at_y((*mark.interval)[1]));
      marks += mark_at(line.colour, x, y);
    }
    const bool plain = line.colour == Chart::baseline;
    out +=
        fmt::format("<g style=\"color: var(--{})\">\n", plain ? "ink" : fmt::format("c{}", line.colour % 8));
    if (line.joined)
      out += fmt::format("<path class=\"curve{}\" d=\"{}\"/>\n",
                         plain              ? ""
                         : line.colour >= 8 ? " again"
                         : line.colour >= 4 ? " far"
                                            : "",
                         path);
    const double x = at_x(line.marks.back().x);
    out += fmt::format("<path class=\"thin\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", x + 4, ends[i],
                       right + 6, labels[i]);
    out += marks + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n</g>\n", right + 9, labels[i] + 4,
                               escaped(line.name.size() > 26 ? line.name.substr(0, 25) + "~" : line.name));
  }
  return out + "</svg>\n";
}

}  // namespace mxtape::referee
