#pragma once
#include "kernels/attention/attention.h"
#include "kernels/backend_options.h"

namespace mxtape {

/// Bytes that the CUDA backend takes for itself for the time of one call of attention, at most.
struct AttentionScratch {
  std::int64_t forward, backward;
};

/// For qkv of type `activations`; letters as in AttentionShape. Backward takes 4 B H T bytes for the row sums
/// of O dO in any case. Besides:
///   cuDNN: 2 B H T^2 backward, and with grouped heads 8 B H T D, T rounded up to its tiles' 128 (what 9.19
///   says of itself).
///   Own kernels, all operands bf16 but tensors f32: Q, K, V in bf16; backward dO too.
///   Own kernels, quantized operands: Q, K, V of all heads in bf16, backward seven operands, as Q, K and dO
///   are rounded for two GEMMs each, and a copy of one of them as it was. Or, where heads are taken one at a
///   time, the f32 matrices of a head with what is rounded of them. The larger counts, as kernels choose the
///   way.
AttentionScratch attention_scratch(AttentionKernels, const AttentionShape&, const AttentionQuant&,
                                   DType activations);

}  // namespace mxtape
