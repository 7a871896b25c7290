#pragma once
#include <array>
#include <string_view>

#include "autograd/ops.h"

namespace mxtape {

/// The names of the operand slots, as recipes and precision tables write them, with the field behind each.
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

struct AttentionSlot {
  std::string_view name;
  Quantizer AttentionQuant::*field;
};
inline constexpr std::array<AttentionSlot, 12> attention_slots{{
    {"qk.q", &AttentionQuant::qk_q},
    {"qk.k", &AttentionQuant::qk_k},
    {"pv.p", &AttentionQuant::pv_p},
    {"pv.v", &AttentionQuant::pv_v},
    {"dv.p", &AttentionQuant::dv_p},
    {"dv.do", &AttentionQuant::dv_do},
    {"dp.do", &AttentionQuant::dp_do},
    {"dp.v", &AttentionQuant::dp_v},
    {"dq.ds", &AttentionQuant::dq_ds},
    {"dq.k", &AttentionQuant::dq_k},
    {"dk.ds", &AttentionQuant::dk_ds},
    {"dk.q", &AttentionQuant::dk_q},
}};

}  // namespace mxtape
