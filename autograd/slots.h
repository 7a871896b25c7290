#pragma once
#include <array>
#include <string_view>

#include "autograd/ops.h"
#include "kernels/attention/slots.h"

namespace mxtape {

/// The names of the operand slots, as recipes and precision tables write them, with the field behind each.
/// Attention's are in kernels/attention/slots.h.
struct LinearSlot {
  std::string_view name;
  Quantizer LinearQuant::*field;
};
inline constexpr std::array<LinearSlot, 6> linear_slots{{
    {"fprop.x", &LinearQuant::fprop_x},
    {"fprop.w", &LinearQuant::fprop_w},
    {"dgrad.dy", &LinearQuant::dgrad_dy},
    {"dgrad.w", &LinearQuant::dgrad_w},
    {"wgrad.dy", &LinearQuant::wgrad_dy},
    {"wgrad.x", &LinearQuant::wgrad_x},
}};

struct RotationSlot {
  std::string_view name;
  Rotation LinearQuant::*field;
};
inline constexpr std::array<RotationSlot, 3> rotation_slots{{
    {"fprop.hadamard", &LinearQuant::fprop_rotation},
    {"dgrad.hadamard", &LinearQuant::dgrad_rotation},
    {"wgrad.hadamard", &LinearQuant::wgrad_rotation},
}};

struct SourceSlot {
  std::string_view name;
  OperandSource LinearQuant::*field;
};
inline constexpr std::array<SourceSlot, 2> source_slots{{
    {"dgrad.source", &LinearQuant::dgrad_source},
    {"wgrad.source", &LinearQuant::wgrad_source},
}};

struct StraightThroughSlot {
  std::string_view name;
  StraightThrough LinearQuant::*field;
};
inline constexpr std::array<StraightThroughSlot, 2> straight_through_slots{{
    {"fprop.x.ste", &LinearQuant::x_ste},
    {"fprop.w.ste", &LinearQuant::w_ste},
}};

/// Slots of what enters no GEMM. Only rules that name them reach them: "*" does not.
inline constexpr std::array<LinearSlot, 1> output_slots{{{"out", &LinearQuant::out}}};
inline constexpr std::string_view gain_slot = "norm.gain", table_slot = "embedding.table";
inline constexpr std::string_view sum_slot = "sum.dw";  ///< of gradients, on their way into a step's sum

}  // namespace mxtape
