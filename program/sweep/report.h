#pragma once
#include <string>
#include <vector>

#include "program/sweep/sweep_results.h"

namespace mxtape {

/// One page of HTML that is also well-formed XML: table by gap, the pictures (SVG), each arm's differences.
/// It asks for nothing from anywhere: no script, no file, no network. Numbers are shown with four digits and
/// held with all of them, as <data value="...">, the text that results.json has.
std::string report_html(const SweepPlan&, const SweepResults&, const std::vector<std::string>& pictures);

}  // namespace mxtape
