#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "program/show/report.h"
#include "program/sweep/curves.h"

// What of a sweep's results stands in tables and lines, on a terminal and on the page, and in its pictures.
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

/// On white no two are closer than 12 in CAM02-UCS, with full colour vision or without one kind of cones, nor
/// than 3.5 in lightness, which is what grey print keeps; each has a contrast of three with the ground. Found
/// by a random search over sRGB.
inline constexpr std::array<std::string_view, 8> colours{"0022FF", "BB2200", "2299AA", "BB8822",
                                                         "113377", "662233", "777766", "006688"};

/// The page's pictures, drawn by gnuplot and held in the page itself; why there are none where it fails. Gaps
/// are over tokens at each size, and over sizes at each length; mean losses over the seeds are at each size,
/// against tokens or against the seconds of that many steps.
std::string gap_pictures(const Results&, Curves*), loss_pictures(const Results&, Curves*, bool by_seconds);
std::string law_picture(const Results&, Curves*), tuning_picture(const Results&, Curves*);

/// A text in a page.
std::string html_escaped(std::string_view text);
/// "98.3k", "1.97M": three digits.
std::string with_prefix(double x);

}  // namespace mxtape::referee
