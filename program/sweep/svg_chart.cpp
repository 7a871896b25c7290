#include "program/sweep/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mxtape::svg {
namespace {

constexpr double width = 900, left = 78, right = 14, top = 34, bottom = 44;

/// A stretch of numbers on a stretch of the picture.
struct Axis {
  double low, high, from, to;
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string open_picture(const std::string& title, double height) {
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {0:g} {1:g}\" role=\"img\" aria-label=\"{2}\">\n"
      "<text class=\"title\" x=\"{3:g}\" y=\"20\">{2}</text>\n",
      width, height, escaped(title), left);
}

/// As many digits as the distance of two marks asks for.
std::string mark_text(double value, double distance) {
  const int digits = std::max(0, int(std::ceil(-std::log10(distance) - 1e-9)));
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, digits);
}

std::string x_marks(const Axis& x, double y_top, double y_bottom) {
  const auto marks = round_numbers(x.low, x.high, 8);
  const double distance = marks.size() > 1 ? marks[1] - marks[0] : 1;
  std::string out;
  for (const double mark : marks)
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"mark\" x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x.at(mark), y_top, y_bottom, y_bottom + 17, mark_text(mark, distance));
  return out;
}

std::string y_marks(const Axis& y) {
  const auto marks = round_numbers(y.low, y.high, 6);
  const double distance = marks.size() > 1 ? marks[1] - marks[0] : 1;
  std::string out;
  for (const double mark : marks)
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"mark\" x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        left, width - right, y.at(mark), left - 8, y.at(mark) + 4, mark_text(mark, distance));
  return out;
}

std::string curve(const Curve& c, const Axis& x, const Axis& y) {
  const std::string style = class_of(c.arm);
  std::string line, upper, lower, whiskers, dots;
  for (const BandPoint& p : c.points) {
    const double at = x.at(double(p.step) + c.shift);
    line += fmt::format("{:.1f},{:.1f} ", at, y.at(p.mean));
    upper += fmt::format("{:.1f},{:.1f} ", at, y.at(p.high));
    lower.insert(0, fmt::format("{:.1f},{:.1f} ", at, y.at(p.low)));
    whiskers +=
        fmt::format("<line class=\"whisker {}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                    style, at, at, y.at(p.low), y.at(p.high));
    dots += fmt::format("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>", style, at,
                        y.at(p.mean));
  }
  std::string out;
  if (c.ends == Ends::band)
    out = fmt::format("<polygon class=\"band {}\" points=\"{}{}\"/>\n", style, upper, lower);
  if (c.ends == Ends::whiskers) out = whiskers + "\n";
  out += fmt::format("<polyline class=\"{} {}\" points=\"{}\"/>\n", c.bold ? "line" : "faint", style, line);
  return out + (c.bold ? dots + "\n" : "");
}

}  // namespace

std::string class_of(std::size_t arm) {
  return fmt::format("c{} d{}", arm % colours, arm / colours % dashes);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::vector<double> round_numbers(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  const double part = rough / power;
  const double distance = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
  std::vector<double> numbers;
  for (double k = std::ceil(low / distance); k * distance <= high; k += 1) numbers.push_back(k * distance);
  return numbers;
}

std::string line_chart(const Chart& chart) {
  constexpr double height = 420;
  double last = 1;
  for (const Curve& c : chart.curves)
    if (!c.points.empty()) last = std::max(last, double(c.points.back().step) + c.shift);
  const Axis x{0, 1.01 * last, left, width - right}, y{chart.range[0], chart.range[1], height - bottom, top};
  std::string out = open_picture(chart.title, height);
  if (chart.band)
    out += fmt::format(
        "<rect class=\"tolerance\" x=\"{:.1f}\" width=\"{:.1f}\" y=\"{:.1f}\" height=\"{:.1f}\"/>\n", left,
        width - left - right, y.at(*chart.band), y.at(-*chart.band) - y.at(*chart.band));
  out += y_marks(y) + x_marks(x, top, height - bottom);
  // A picture in the picture: what lies outside of the axes is cut off at them.
  out += fmt::format(
      "<svg x=\"{0:g}\" y=\"{1:g}\" width=\"{2:g}\" height=\"{3:g}\" viewBox=\"{0:g} {1:g} {2:g} {3:g}\">\n",
      left, top, width - left - right, height - bottom - top);
  for (const Curve& c : chart.curves) out += curve(c, x, y);
  return out + fmt::format(
                   "</svg>\n<text class=\"mark\" x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"end\">optimizer "
                   "steps</text>\n<text class=\"mark\" x=\"{2:.1f}\" y=\"{1:.1f}\">{3}</text>\n</svg>\n",
                   width - right, height - 6, left, escaped(chart.y_label));
}

std::string interval_chart(const std::vector<Interval>& rows, double tolerance) {
  constexpr double row_height = 24, names = 250;
  double low = -tolerance, high = tolerance;
  for (const Interval& row : rows) low = std::min(low, row.low), high = std::max(high, row.high);
  const double margin = 0.06 * (high - low), height = top + row_height * double(rows.size()) + bottom;
  const Axis x{low - margin, high + margin, names, width - right};
  const double end = height - bottom;
  std::string out = open_picture("gap to the baseline with its 95 % interval, in nats per token", height);
  out += fmt::format(
      "<rect class=\"tolerance\" x=\"{:.1f}\" width=\"{:.1f}\" y=\"{:.1f}\" height=\"{:.1f}\"/>\n",
      x.at(-tolerance), x.at(tolerance) - x.at(-tolerance), top, end - top);
  out += x_marks(x, top, end);
  out += fmt::format("<line class=\"zero\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n",
                     x.at(0), top, end);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Interval& row = rows[i];
    const double y = top + row_height * (double(i) + 0.5);
    const std::string name = row.name.size() > 38 ? row.name.substr(0, 36) + "..." : row.name;
    out += fmt::format(
        "<text class=\"mark\" x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"end\">{2}</text>"
        "<line class=\"line {3}\" x1=\"{4:.1f}\" x2=\"{5:.1f}\" y1=\"{6:.1f}\" y2=\"{6:.1f}\"/>"
        "<circle class=\"dot {3}\" cx=\"{7:.1f}\" cy=\"{6:.1f}\" r=\"4\"/>\n",
        names - 10, y + 4, escaped(name), class_of(row.arm), x.at(row.low), x.at(row.high), y,
        x.at(row.mean));
  }
  return out + "</svg>\n";
}

}  // namespace mxtape::svg
