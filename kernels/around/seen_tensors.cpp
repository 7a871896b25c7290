#include "kernels/around/seen_tensors.h"

#include <fmt/format.h>

#include <array>

#include "kernels/around/operand_slots.h"
#include "kernels/around/written.h"

namespace mxtape {
namespace {

/// Which tensors a GEMM of a linear layer multiplies, and what it gives: autograd/linear.cpp.
struct GemmNames {
  std::string_view slot, a, b, c;
};
constexpr std::array<GemmNames, 3> gemm_names{
    {{"fprop", "x", "w", "y"}, {"dgrad", "dy", "w", "dx"}, {"wgrad", "dy", "x", "dw"}}};

const GemmNames* names_of(const call::Gemm& gemm) {
  for (const GemmNames& names : gemm_names)
    if (names.slot == gemm.slot) return &names;
  return nullptr;
}

void add(std::vector<SeenTensor>& all, std::string name, const Tensor& x) {
  if (x && (x.dtype() == DType::f32 || x.dtype() == DType::bf16)) all.push_back({std::move(name), x});
}

void add_operands(std::vector<SeenTensor>& all, const call::Gemm& gemm) {
  const GemmNames* names = names_of(gemm);
  if (!names) return;
  for (const auto& [name, operand] : {std::pair{names->a, &gemm.a}, std::pair{names->b, &gemm.b}}) {
    const std::string slot = fmt::format("{}.{}", names->slot, name);
    add(all, slot, operand->values);
    add(all, slot + "'s scales", operand->scales);
    add(all, slot + "'s multiplier", operand->multiplier);
  }
}
void add_operands(std::vector<SeenTensor>&, const auto&) {}

void add_results(std::vector<SeenTensor>& all, const call::Gemm& gemm) {
  const GemmNames* names = names_of(gemm);
  add(all, names ? fmt::format("{}.{}", names->slot, names->c) : "c", gemm.c);
}
void add_results(std::vector<SeenTensor>& all, const call::Quantize& call) {
  for (const QuantizedCopy& copy : call.copies) {
    const std::string slot = call.slot.empty() ? "values" : operand_slot(call.slot, copy.axis);
    add(all, slot, copy.values);
    add(all, slot + "'s scales", copy.scales);
    add(all, slot + "'s multiplier", copy.multiplier);
  }
  add(all, call.slot == "dy" ? "bias gradient" : "column sums", call.column_sums);
}
void add_results(std::vector<SeenTensor>& all, const auto& call) {
  call.each(call, [&](Role role, std::string_view field, const Tensor& x) {
    if (is_written(role, field)) add(all, std::string(field), x);
  });
}

}  // namespace

std::vector<SeenTensor> operands_of(AnyCall any) {
  std::vector<SeenTensor> all;
  std::visit([&](const auto* call) { add_operands(all, *call); }, any);
  return all;
}

std::vector<SeenTensor> results_of(AnyCall any) {
  std::vector<SeenTensor> all;
  std::visit([&](const auto* call) { add_results(all, *call); }, any);
  return all;
}

}  // namespace mxtape
