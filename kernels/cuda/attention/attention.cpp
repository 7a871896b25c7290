#include "core/error.h"
#include "kernels/attention/slots.h"
#include "kernels/calls_rows.h"
#include "kernels/cuda/attention/attention_operands.h"
#include "kernels/cuda/attention/attention_paths.h"
#include "kernels/cuda/cuda_backend.h"

namespace mxtape {
namespace {

/// With bf16 for the unquantized slots of bf16 tensors: their operands are bf16 as they are, and P and dS may
/// be rounded to it.
AttentionQuant on_tensor_cores(const Tensor& qkv, AttentionQuant q) {
  if (qkv.dtype() != DType::bf16) return q;
  for (const AttentionSlot& slot : attention_slots)
    if ((q.*slot.field).is_identity()) q.*slot.field = bf16_cast;
  return q;
}

enum class Way { flash, general_f32, general_bf16, blocks, by_heads };

/// What is dropped is dropped head by head. Without block scales: on tensor cores if the operands are bf16,
/// because the tensors are or because every slot says so, and the width fits; else by tiles in f32. With
/// them: on tensor cores where the blocks fit. Everything else, also a mixture of plain f32 and bf16 slots,
/// is left to the definition.
Way way_of(const Tensor& qkv, const AttentionShape& shape, const AttentionQuant& quant,
           const Tensor& lengths) {
  if (shape.dropout != 0) return Way::by_heads;
  const bool f32 = every_operand_is(quant, f32_passthrough), bf16 = every_operand_is(quant, bf16_cast);
  if (!f32 && !bf16)
    return !lengths && cuda::blocks_take(shape, on_tensor_cores(qkv, quant)) ? Way::blocks : Way::by_heads;
  if ((bf16 || qkv.dtype() == DType::bf16) && !lengths && cuda::flash_takes(shape)) return Way::flash;
  return bf16 ? Way::general_bf16 : Way::general_f32;
}

/// Recipes that ask for cuDNN's kernels and for something else are refused when they are read.
void require_for_cudnn(const Tensor& qkv, const AttentionQuant& quant) {
  require(
      qkv.dtype() == DType::bf16 &&
          (every_operand_is(quant, f32_passthrough) || every_operand_is(quant, bf16_cast)),
      "cuda: attention by cuDNN: qkv is {}, qk.q {}, pv.p {}; want bf16 tensors and all operands bf16, or "
      "all f32",
      name_of(qkv.dtype()), quant.qk_q, quant.pv_p);
}

/// Forward or backward.
template <class Call>
void attend(const cuda::OnDevice<Call>& call, const cuda::ClockedKey& draws) {
  switch (way_of(call.qkv, call.shape, call.quant, call.lengths)) {
    case Way::flash:
      return cuda::attention_flash(call);
    case Way::general_f32:
      return cuda::attention_general(call, DType::f32);
    case Way::general_bf16:
      return cuda::attention_general(call, DType::bf16);
    case Way::blocks:
      return cuda::attention_blocks(call, on_tensor_cores(call.qkv, call.quant), draws);
    case Way::by_heads:
      return cuda::attention_by_heads(call);
  }
}

}  // namespace

void CudaBackend::compute(const call::Attention& call) {
  if (cudnn_attention_ && call.shape.is_causal_self() && !call.lengths) {
    require_for_cudnn(call.qkv, call.quant);
    return cudnn_attention_->forward(call.o, call.lse, call.qkv, call.shape);
  }
  attend(cuda::AttentionForward{call, *this, stream_.get()}, clocked(call.draws));
}

void CudaBackend::compute(const call::AttentionBackward& call) {
  if (cudnn_attention_ && call.shape.is_causal_self() && !call.lengths) {
    require_for_cudnn(call.qkv, call.quant);
    return cudnn_attention_->backward(call.dqkv, call.d_o, call.qkv, call.o, call.lse, call.shape);
  }
  attend(cuda::AttentionBackward{call, *this, stream_.get()}, clocked(call.draws));
}

}  // namespace mxtape
