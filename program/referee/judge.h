#pragma once
#include "program/referee/results.h"

namespace mxtape::referee {

/// The baseline may be off the law by this share of its loss where it is worst; beyond, the law does not
/// hold.
inline constexpr double law_limit = 0.01;

/// From runs and gaps, what follows: Holm's correction, sums of arms, efficiencies, the law, break-even
/// speed-ups, and whether rounding errors predict the gaps. Losses at a point count if all seeds of the stage
/// have one, and none of the baseline's runs blew up.
void judge(Results&);

}  // namespace mxtape::referee
