#pragma once
#include <array>
#include <string_view>

#include "kernels/backend.h"

namespace mxtape {

/// The names of attention's operand slots, as recipes write them, with the field behind each.
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

inline bool every_operand_is(const AttentionQuant& quant, const Quantizer& q) {
  for (const AttentionSlot& slot : attention_slots)
    if (quant.*slot.field != q) return false;
  return true;
}

}  // namespace mxtape
