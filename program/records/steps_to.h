#pragma once
#include <optional>
#include <vector>

#include "program/records/run_log.h"

namespace mxtape {

/// The steps after which a run first has a validation loss: where the straight line from the last validation
/// above it to the next has it, or the first validation's if that one is not above. None: it never has.
std::optional<double> steps_to(const std::vector<RunLog::Point>& validation, double loss);

}  // namespace mxtape
