#pragma once
#include <cstdint>

#include "kernels/calls.h"

namespace mxtape {

/// Whose kernels compute attention. cuDNN's are for CUDA, bf16 tensors and unquantized operands, which they
/// multiply in bf16.
enum class AttentionKernels : std::uint8_t { own, cudnn };
/// The head widths of cuDNN's attention.
constexpr bool cudnn_takes_width(std::int64_t width) { return width % 8 == 0 && width <= 128; }

struct BackendOptions {
  bool graph = true;  ///< record work that repeats, and launch it as one; for devices that can
  AttentionKernels attention = AttentionKernels::own;
  GemmKernels gemm = GemmKernels::library;
};

}  // namespace mxtape
