#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape::referee {

/// A picture in the page itself, whose colours follow the page's, by day, by night and in print.
struct Chart {
  static constexpr std::size_t baseline = 1000;  ///< a colour: the text's, without dashes
  struct Mark {
    double x, y;
    std::optional<std::array<double, 2>> interval{};  ///< whiskers
  };
  struct Line {
    std::string name;    ///< at its end
    std::size_t colour;  ///< eight, each with a mark of its own; later ones share theirs, dotted
    std::vector<Mark> marks;
    bool joined = true;
  };
  std::string title, x_label, y_label;
  std::vector<Line> lines;
  std::optional<double> level{};  ///< a rule across
};

/// For the page's style sheet.
extern const std::string_view chart_style;
/// Inline SVG, x in a logarithm; without marks empty.
std::string svg(const Chart&);
/// "98.3k", "1.97M": three digits.
std::string with_prefix(double x);
/// A text where HTML stands.
std::string escaped(std::string_view text);

}  // namespace mxtape::referee
