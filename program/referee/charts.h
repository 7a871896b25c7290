#pragma once
#include <vector>

#include "program/referee/chart.h"
#include "program/referee/results.h"

// What a referee's page draws: a line an arm, of the stage that verdicts are of.
namespace mxtape::referee {

/// Over tokens at each size, over sizes at each length.
std::vector<Chart> gap_charts(const Results&);
/// Mean loss over the seeds at each size, against tokens or against the seconds of that many steps.
std::vector<Chart> loss_charts(const Results&, bool against_seconds);
std::vector<Chart> law_charts(const Results&);
std::vector<Chart> tuning_charts(const Results&);

/// Of a step of an arm; none if its runs took none.
std::optional<double> step_ms(const Results&, std::size_t size, std::size_t arm);

}  // namespace mxtape::referee
