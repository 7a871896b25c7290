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

}  // namespace mxtape
