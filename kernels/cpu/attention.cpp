#include "kernels/attention_slots.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {
void CpuBackend::attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape shape,
                           const AttentionQuant& quant, const DrawKey& draws) {
  const cpu::AttentionForward call{*this, shape, o, lse, qkv};
  if (every_operand_is(quant, f32_passthrough)) return cpu::attention_by_tiles(call, DType::f32);
  if (every_operand_is(quant, bf16_cast)) return cpu::attention_by_tiles(call, DType::bf16);
  cpu::attention_by_heads(call, quant, draws);
}

void CpuBackend::attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                                    const Tensor& lse, AttentionShape shape, const AttentionQuant& quant,
                                    const DrawKey& draws) {
  const cpu::AttentionBackward call{*this, shape, dqkv, d_o, qkv, o, lse};
  if (every_operand_is(quant, f32_passthrough)) return cpu::attention_by_tiles_backward(call, DType::f32);
  if (every_operand_is(quant, bf16_cast)) return cpu::attention_by_tiles_backward(call, DType::bf16);
  cpu::attention_by_heads_backward(call, quant, draws);
}

}  // namespace mxtape
