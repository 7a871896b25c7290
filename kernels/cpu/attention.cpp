#include "kernels/attention/slots.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

void CpuBackend::compute(const call::Attention& call) {
  if (every_operand_is(call.quant, f32_passthrough)) return cpu::attention_by_tiles(*this, call, DType::f32);
  if (every_operand_is(call.quant, bf16_cast)) return cpu::attention_by_tiles(*this, call, DType::bf16);
  cpu::attention_by_heads(*this, call);
}

void CpuBackend::compute(const call::AttentionBackward& call) {
  if (every_operand_is(call.quant, f32_passthrough))
    return cpu::attention_by_tiles_backward(*this, call, DType::f32);
  if (every_operand_is(call.quant, bf16_cast))
    return cpu::attention_by_tiles_backward(*this, call, DType::bf16);
  cpu::attention_by_heads_backward(*this, call);
}

}  // namespace mxtape
