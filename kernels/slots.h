#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "formats/quantize.h"

namespace mxtape {

// clang-format off
/// Every place where a recipe can ask for a rounding.
enum class Slot : std::uint8_t {
  fprop_x, fprop_w, dgrad_dy, dgrad_w, wgrad_dy, wgrad_x,                      // of a linear layer's GEMMs
  qk_q, qk_k, pv_p, pv_v, dv_p, dv_do, dp_do, dp_v, dq_ds, dq_k, dk_ds, dk_q,  // of attention's
  scores, out, value, gain, table, sum_dw, none                                // in no GEMM
};
inline constexpr int slots_of_linear = 6, slots_of_attention = 12;

/// Its name in recipes and reports, and the axis of its matrix, as it is stored, over which its GEMM sums.
struct SlotRow {
  std::string_view name;
  Axis axis;
};
/// By Slot. Slots in no GEMM are rounded along rows.
inline constexpr std::array<SlotRow, 25> slot_table{{
    {"fprop.x", Axis::row}, {"fprop.w", Axis::row}, {"dgrad.dy", Axis::row},
    {"dgrad.w", Axis::column}, {"wgrad.dy", Axis::column}, {"wgrad.x", Axis::column},
    {"qk.q", Axis::row}, {"qk.k", Axis::row}, {"pv.p", Axis::row}, {"pv.v", Axis::column},
    {"dv.p", Axis::column}, {"dv.do", Axis::column}, {"dp.do", Axis::row}, {"dp.v", Axis::row},
    {"dq.ds", Axis::row}, {"dq.k", Axis::column}, {"dk.ds", Axis::column}, {"dk.q", Axis::column},
    {"scores", Axis::row}, {"out", Axis::row}, {"value", Axis::row}, {"norm.gain", Axis::row},
    {"embedding.table", Axis::row}, {"sum.dw", Axis::row}, {"", Axis::row},
}};
// clang-format on
constexpr std::string_view name_of(Slot slot) { return slot_table[std::size_t(slot)].name; }
constexpr Axis axis_of(Slot slot) { return slot_table[std::size_t(slot)].axis; }
static_assert(name_of(Slot::dk_q) == "dk.q" && name_of(Slot::sum_dw) == "sum.dw" &&
              name_of(Slot::none).empty());

/// Of a linear layer's GEMMs; and what such a GEMM gives: "fprop.y".
constexpr bool is_linear(Slot slot) { return int(slot) < slots_of_linear; }
constexpr std::string_view product_of(Slot operand) {
  constexpr std::array<std::string_view, 3> names{"fprop.y", "dgrad.dx", "wgrad.dw"};
  return is_linear(operand) ? names[std::size_t(operand) / 2] : "c";
}

/// "fprop" of "fprop.x": the GEMM that multiplies it; and "x": the tensor that is rounded.
constexpr std::string_view gemm_of(Slot slot) { return name_of(slot).substr(0, name_of(slot).find('.')); }
constexpr std::string_view tensor_of(Slot slot) { return name_of(slot).substr(name_of(slot).find('.') + 1); }

/// Who asked for a rounding: a layer, by the first of its tensor ids in random draws, and its slot.
struct Site {
  std::uint32_t layer = 0;
  Slot slot = Slot::none, also = Slot::none;  ///< the second one is served by the same copy
  bool operator==(const Site&) const = default;
};

}  // namespace mxtape
