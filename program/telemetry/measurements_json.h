#pragma once
#include "kernels/around/measuring_backend.h"
#include "program/json/json_output.h"

namespace mxtape {

/// {"operands": [...], "gradients": [...], "weights": [...]}: docs/json.md names the fields.
Json json_of(const Measurements&);
Json json_of(const ErrorStatistics&);

}  // namespace mxtape
