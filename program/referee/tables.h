#pragma once
#include <optional>
#include <string>
#include <vector>

#include "program/show/report.h"
#include "program/sweep/results.h"

// What of a sweep's results stands in tables and lines, on a terminal and on the page.
namespace mxtape::referee {

/// Of those that are there; none if none is.
std::optional<double> mean_of(const std::vector<std::optional<double>>&);

/// Whose seeds verdicts are of, once a run with these is finished; until then the first ones.
Stage shown_stage(const Results&);
/// The last point that has a finished pair on their seeds; the first one if none has.
std::size_t largest_shown(const Results&);
/// A row for each arm at each point from `first` to before `last` where a run of the stage is finished.
/// `whole`: with what a terminal has no room for. effN, effD and break-even stand at largest_shown().
Table verdicts(const Results&, std::size_t first, std::size_t last, Stage, bool whole);
/// On the seeds that verdicts are of.
Table steps_to_table(const Results&);
Table contrasts_table(const Results&), correlations_table(const Results&);
/// With one point.
Table losses_by_seed(const Results&);

/// "mxfp4: seed 1 at step 10 (unlearned: 146 %), seed 2 at step 12": of each arm and point with spikes; those
/// of a trunk at its first length.
std::vector<std::string> spike_lines(const Results&);
/// "mxfp4: formats change at step 300; training loss of the next 50 steps +0.0123 +- 0.0012".
std::vector<std::string> switch_lines(const Results&);

/// "3 seeds tell a gap of 0.0095 from none", or why they do not. `gap`: the resolvable one.
std::string resolution(const Results&, const std::string& gap);
/// What is printed; `width` of Table::text().
std::string results_table(const Results&, std::size_t width);
/// One line a run: arm, seed, state, loss, gap to the baseline, ms, peak_mib, seconds, steps and seconds to
/// each loss of `steps_to`.
std::string results_csv(const Results&);

}  // namespace mxtape::referee
