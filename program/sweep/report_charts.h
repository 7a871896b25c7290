#pragma once
#include <string>

#include "program/sweep/sweep_results.h"

/// The charts of a sweep's report, as SVG elements; empty where there is nothing to show.
namespace mxtape {

/// The gaps at the end with their intervals.
std::string interval_chart(const SweepPlan&, const SweepResults&);
/// Gaps over the steps: without the first eighth of training, whose gaps would flatten the rest, and with the
/// intervals of the last half.
std::string gap_chart(const SweepPlan&, const SweepResults&);
/// Validation losses of arms that were validated more than once: the table has the others.
std::string loss_chart(const SweepPlan&, const SweepResults&);

}  // namespace mxtape
