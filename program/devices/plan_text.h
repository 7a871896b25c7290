#pragma once
#include <string>
#include <vector>

#include "program/json/json_output.h"
#include "train/memory/device_plan.h"

namespace mxtape {

/// Lines of `mxtape check --devices N`.
std::vector<std::string> device_facts(const DevicePlan&);
/// The same for programs.
Json json_of(const DevicePlan&);

}  // namespace mxtape
