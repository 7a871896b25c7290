#include <optional>

#include "kernels/attention/slots.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape {
namespace {

/// The type of all operands, if tiles can do without the composition.
std::optional<DType> tile_operands(const AttentionShape& shape, const AttentionQuant& quant) {
  if (shape.dropout != 0) return {};
  if (every_operand_is(quant, f32_passthrough)) return DType::f32;
  if (every_operand_is(quant, bf16_cast)) return DType::bf16;
  return {};
}

/// Few queries go the way of few rows, so that a token computed alone gets the bits that it gets among
/// others.
bool by_pairs(const AttentionShape& shape, DType operands) {
  return operands == DType::bf16 && shape.time > cpu::most_few_rows && cpu::pair_tiles();
}

}  // namespace

void CpuBackend::compute(const call::Attention& call) {
  if (const auto operands = tile_operands(call.shape, call.quant))
    return by_pairs(call.shape, *operands) ? cpu::attention_by_pairs(*this, call)
                                           : cpu::attention_by_tiles(*this, call, *operands);
  cpu::attention_by_heads(*this, call);
}

void CpuBackend::compute(const call::AttentionBackward& call) {
  if (const auto operands = tile_operands(call.shape, call.quant))
    return by_pairs(call.shape, *operands) ? cpu::attention_by_pairs_backward(*this, call)
                                           : cpu::attention_by_tiles_backward(*this, call, *operands);
  cpu::attention_by_heads_backward(*this, call);
}

}  // namespace mxtape
