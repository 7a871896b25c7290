#pragma once
#include <string>
#include <vector>

#include "program/show/report.h"
#include "train/memory/device_plan.h"

namespace mxtape {

/// "new weights once 0.21 GB instead of 0.50 GB of f32; 48 parameters as packed copies; 100 as f32, ...".
std::string gather_text(const GatherPlan&);
/// Lines of `mxtape check --devices N`.
std::vector<std::string> device_facts(const DevicePlan&);
/// The same for programs.
Value value_of(const DevicePlan&);

}  // namespace mxtape
