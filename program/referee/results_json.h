#pragma once
#include <filesystem>
#include <string>

#include "program/referee/results.h"
#include "program/show/report.h"

namespace mxtape::referee {

/// results.json: docs/json.md names the fields. What a clock measured is in `times`, last.
Value value_of(const Results&);
/// Reads it back. Throws Error(data) naming file and field for what is not such a file, and Error(resource)
/// where it cannot be read.
Results read_results(const std::filesystem::path&);

}  // namespace mxtape::referee
