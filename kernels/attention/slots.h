#pragma once
#include <array>
#include <string_view>

#include "kernels/attention/attention.h"
#include "kernels/calls_rows.h"
#include "kernels/slots.h"

namespace mxtape {

/// An operand slot of attention and the field with its quantizer.
struct AttentionSlot {
  Slot slot;
  AttentionField field;
  std::string_view name;
  Axis axis;
  constexpr AttentionSlot(Slot s, AttentionField f) : slot(s), field(f), name(name_of(s)), axis(axis_of(s)) {}
};
/// In the order of Slot. The place of a slot here keys its random draws (call::Attention).
inline constexpr std::array<AttentionSlot, slots_of_attention> attention_slots{{
    {Slot::qk_q, &AttentionQuant::qk_q},
    {Slot::qk_k, &AttentionQuant::qk_k},
    {Slot::pv_p, &AttentionQuant::pv_p},
    {Slot::pv_v, &AttentionQuant::pv_v},
    {Slot::dv_p, &AttentionQuant::dv_p},
    {Slot::dv_do, &AttentionQuant::dv_do},
    {Slot::dp_do, &AttentionQuant::dp_do},
    {Slot::dp_v, &AttentionQuant::dp_v},
    {Slot::dq_ds, &AttentionQuant::dq_ds},
    {Slot::dq_k, &AttentionQuant::dq_k},
    {Slot::dk_ds, &AttentionQuant::dk_ds},
    {Slot::dk_q, &AttentionQuant::dk_q},
}};

/// The place of a slot, and of a field.
constexpr std::uint32_t attention_place(Slot slot) { return std::uint32_t(slot) - std::uint32_t(Slot::qk_q); }
constexpr std::uint32_t attention_place(AttentionField field) {
  std::uint32_t place = 0;
  while (attention_slots[place].field != field) ++place;
  return place;
}

/// The score matrix. Like the result of a linear layer it enters no GEMM: only rules that name it reach it.
inline constexpr AttentionSlot score_slot{Slot::scores, &AttentionQuant::qk_s};

/// Places behind those of the slots: which P are dropped, and the score matrix.
inline constexpr std::uint32_t attention_dropout_place = 12, score_place = 13;

/// The draws of one head's operand with `elements` numbers, `head` of all sequences' `heads` (b heads + h):
/// field number n has tensor id draws.tensor_id + n; elements are numbered in [B, H, T, D], those of K and V
/// in [B, G, keys, D], of P and dS in [B, H, T, keys], of the global batch, in which draws.first_element
/// counts tokens.
constexpr DrawKey attention_draws(DrawKey draws, std::uint32_t place, const AttentionShape& s,
                                  std::int64_t heads, std::int64_t head, std::int64_t elements) {
  const std::int64_t first_sequence = std::int64_t(draws.first_element) / s.time;
  draws.tensor_id += place;
  draws.first_element = std::uint64_t((first_sequence * heads + head) * elements);
  return draws;
}

/// The draws by which call::Dropout drops a head's P, and dP alike.
constexpr DrawKey attention_dropout_draws(DrawKey draws, const AttentionShape& s, std::int64_t head) {
  draws.purpose = Purpose::dropout;
  return attention_draws(draws, attention_dropout_place, s, s.heads, head, s.time * s.keys);
}

/// And the score matrix stays as it is.
inline bool every_operand_is(const AttentionQuant& quant, const Quantizer& q) {
  for (const AttentionSlot& slot : attention_slots)
    if (quant.*slot.field != q) return false;
  return quant.qk_s.is_identity();
}

/// True if queries, keys and values are rounded to bf16 before anything else is done with them.
inline bool rounds_inputs_to_bf16(const AttentionQuant& quant) {
  using Quant = AttentionQuant;
  for (const AttentionField field :
       {&Quant::qk_q, &Quant::qk_k, &Quant::pv_v, &Quant::dp_v, &Quant::dq_k, &Quant::dk_q})
    if (quant.*field != bf16_cast) return false;
  return true;
}

}  // namespace mxtape
