#pragma once
#include "kernels/observers/measure.h"
#include "program/show/report.h"

namespace mxtape {

/// {"operands": [...], "gradients": [...], "left_out": [...]}: docs/json.md names the fields.
Json json_of(const Measurements&);
Json json_of(const ErrorStatistics&);
/// What is measured of one, without its place.
Json json_of_operand(const Measurements::Operand&);
Json json_of_gradient(const Measurements::Gradient&);

}  // namespace mxtape
