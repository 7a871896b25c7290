#pragma once
#include <array>
#include <string>
#include <vector>

#include "program/sweep/results.h"

namespace mxtape::referee {

/// A picture over a logarithm: a line an arm, of the stage that verdicts are of.
struct Chart {
  struct Mark {
    double x, y;
    std::optional<std::array<double, 2>> interval{};  ///< whiskers
  };
  struct Line {
    std::string name;           ///< at its end
    std::string colour, style;  ///< "0022FF"; gnuplot's dashes and mark
    std::vector<Mark> marks;
  };
  std::string title, x_label, y_label;
  std::vector<Line> lines;
  bool joined = true;
  std::optional<double> level{};  ///< a rule across
};

/// On white no two are closer than 12 in CAM02-UCS, with full colour vision or without one kind of cones, nor
/// than 3.5 in lightness, which is what grey print keeps; each has a contrast of three with the ground. Found
/// by a random search over sRGB.
inline constexpr std::array<std::string_view, 8> colours{"0022FF", "BB2200", "2299AA", "BB8822",
                                                         "113377", "662233", "777766", "006688"};

/// The page's pictures, drawn by gnuplot and held in the page itself; why there are none where it fails.
std::string pictures(const std::vector<Chart>&);

/// Over tokens at each size, over sizes at each length.
std::vector<Chart> gap_charts(const Results&);
/// Mean loss over the seeds at each size, against tokens or against the seconds of that many steps.
std::vector<Chart> loss_charts(const Results&, bool against_seconds);
std::vector<Chart> law_charts(const Results&);
std::vector<Chart> tuning_charts(const Results&);

/// A text in a page.
std::string html_escaped(std::string_view text);
/// "98.3k", "1.97M": three digits.
std::string with_prefix(double x);

}  // namespace mxtape::referee
