#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "program/records/paired_gap.h"
#include "program/records/run_log.h"

namespace mxtape {

/// A point of a curve over seeds. Of gaps, [low, high] is the 95 % interval of the mean; of losses, the
/// range.
struct BandPoint {
  std::int64_t step;
  double mean, low, high;
};
using BandCurve = std::vector<BandPoint>;

/// The runs of two arms with the same seed.
struct RunPair {
  RunLog arm, baseline;
};

/// Validation losses, at the steps that all runs have.
BandCurve validation_curve(std::span<const RunLog>);
/// Gaps of the validation loss, at the steps that all runs have.
BandCurve validation_gaps(std::span<const RunPair>);
/// Gaps of the training loss in windows of `width` steps.
BandCurve training_gaps(std::span<const RunPair>, std::int64_t width);
/// The gap of the training loss over the `count` steps after `step`, by pair; empty if a run lacks them.
std::vector<double> gaps_after(std::span<const RunPair>, std::int64_t step, std::int64_t count);

}  // namespace mxtape
