#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "program/sweep/curves.h"

/// Pictures inside a page: SVG elements that name no colour but by the page's style classes, so that they are
/// read on light and dark ground.
namespace mxtape::svg {

constexpr std::size_t colours = 6, dashes = 4;
/// "c2 d1": the colour and the dashes of arm 8.
std::string class_of(std::size_t arm);

/// & < > " as entities.
std::string escaped(const std::string& text);

/// What a curve shows of the ends of its points.
enum class Ends { none, whiskers, band };

struct Curve {
  std::size_t arm = 0;
  BandCurve points;
  Ends ends = Ends::none;
  bool bold = true;  ///< with a mark at each point; else a faint line
  double shift = 0;  ///< in steps: whiskers of several curves stand side by side
};
/// Curves over steps. `range`: the values shown. `band`: a stripe from -band to band.
struct Chart {
  std::string title, y_label;
  std::vector<Curve> curves;
  std::array<double, 2> range{};
  std::optional<double> band{};
};
std::string line_chart(const Chart&);

/// A row of an interval chart: the mean and its interval.
struct Interval {
  std::string name;
  std::size_t arm = 0;
  double mean = 0, low = 0, high = 0;
};
/// One line a row, with the stripe of the tolerance.
std::string interval_chart(const std::vector<Interval>&, double tolerance);

/// About `count` round numbers, 1, 2 or 5 times a power of ten apart, inside [low, high].
std::vector<double> round_numbers(double low, double high, int count);

}  // namespace mxtape::svg
