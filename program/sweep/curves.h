#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "program/plot/plot.h"
#include "program/sweep/results.h"

namespace mxtape {

/// A point of a curve over seeds. Of gaps, [low, high] is the 95 % interval of the mean; of losses, the
/// range.
struct BandPoint {
  std::int64_t step;
  double mean, low, high;
};
using BandCurve = std::vector<BandPoint>;

/// By arm, the records of its finished runs by seed.
using Logs = std::vector<std::map<std::uint64_t, RunLog>>;
/// The runs of two arms with the same seed.
struct RunPair {
  RunLog arm, baseline;
};
std::vector<RunPair> pairs_of(const Logs::value_type& arm, const Logs::value_type& baseline);

/// Validation losses, at the steps that all runs have.
BandCurve validation_curve(std::span<const RunLog>);
/// Gaps of the validation loss, or of the training loss in windows of `width` steps, where all runs have
/// them.
BandCurve gaps_of(std::span<const RunPair>, std::vector<RunLog::Point> RunDifference::*,
                  std::int64_t width = 1);
/// The gap of the training loss over the `count` steps after `step`, by pair; empty if a run lacks them.
std::vector<double> gaps_after(std::span<const RunPair>, std::int64_t step, std::int64_t count);

/// Draws, unless there are [points], into the folder, as gap.svg, gap.png and so on: gaps with the 95 %
/// interval of their mean as whiskers; and, of several validations, their losses with the range of the seeds
/// as bands of the baseline and of the arm with the largest gap. A machine without gnuplot has no pictures;
/// why others could not be drawn or written is a fault.
struct Curves {
  std::vector<std::string> pictures{};  ///< SVG
  std::string why{};                    ///< no gnuplot
  std::optional<Error> fault{};
};
Curves draw_curves(const referee::Results&, const std::filesystem::path& folder);

namespace referee {
/// One page of HTML that is also well-formed XML: which method is worth it, the curves, the law, and what was
/// not run. It asks for nothing from anywhere: no script, no file, no network. Numbers are held with all
/// their digits, as <data value="...">. With [points] it has pictures of its own, and adds their fault.
std::string page(const Results&, Curves* = nullptr);
}  // namespace referee

}  // namespace mxtape
