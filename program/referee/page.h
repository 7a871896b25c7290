#pragma once
#include <string>

#include "program/referee/results.h"

namespace mxtape::referee {

/// One page of HTML that is also well-formed XML: which method is worth it, the curves, the law, and what was
/// not run. It asks for nothing from anywhere: no script, no file, no network. Numbers are held with all
/// their digits, as <data value="...">.
std::string page(const Results&);

}  // namespace mxtape::referee
