#pragma once
#include <array>
#include <string_view>

#include "autograd/ops.h"
#include "kernels/attention/slots.h"

namespace mxtape {

/// The operand slots with the field behind each. Attention's are in kernels/attention/slots.h.
struct LinearSlot {
  Slot slot;
  Quantizer LinearQuant::*field;
  std::string_view name = name_of(slot);
};
inline constexpr std::array<LinearSlot, slots_of_linear> linear_slots{{
    {Slot::fprop_x, &LinearQuant::fprop_x},
    {Slot::fprop_w, &LinearQuant::fprop_w},
    {Slot::dgrad_dy, &LinearQuant::dgrad_dy},
    {Slot::dgrad_w, &LinearQuant::dgrad_w},
    {Slot::wgrad_dy, &LinearQuant::wgrad_dy},
    {Slot::wgrad_x, &LinearQuant::wgrad_x},
}};

/// What rules name beside the formats of operands.
template <class Field>
struct NamedSlot {
  std::string_view name;
  Field LinearQuant::*field;
};
inline constexpr std::array<NamedSlot<Rotation>, 3> rotation_slots{{
    {"fprop.hadamard", &LinearQuant::fprop_rotation},
    {"dgrad.hadamard", &LinearQuant::dgrad_rotation},
    {"wgrad.hadamard", &LinearQuant::wgrad_rotation},
}};

inline constexpr std::array<NamedSlot<OperandSource>, 2> source_slots{{
    {"dgrad.source", &LinearQuant::dgrad_source},
    {"wgrad.source", &LinearQuant::wgrad_source},
}};

inline constexpr std::array<NamedSlot<StraightThrough>, 2> straight_through_slots{{
    {"fprop.x.ste", &LinearQuant::x_ste},
    {"fprop.w.ste", &LinearQuant::w_ste},
}};

/// Slots of what enters no GEMM. Only rules that name them reach them: "*" does not.
inline constexpr std::array<LinearSlot, 1> output_slots{{{Slot::out, &LinearQuant::out}}};

}  // namespace mxtape
