#pragma once
#include "kernels/observers/measure.h"
#include "program/show/report.h"

namespace mxtape {

/// {"operands": [...], "gradients": [...], "left_out": [...]}: docs/json.md names the fields.
Value value_of(const Measurements&);
Value value_of(const ErrorStatistics&);
/// What is measured of one, without its place.
Value value_of_operand(const Measurements::Operand&);
Value value_of_gradient(const Measurements::Gradient&);

}  // namespace mxtape
