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

/// How a device multiplies two bf16 operands: as they are, or widened to f32 first. Either way products are
/// exact.
enum class Bf16Products : bool { native, widened };

/// All that decides how two operands are multiplied, besides their roundings.
struct Products {
  Products(Bf16Products narrow, GemmKernels preferred = GemmKernels::library)
      : bf16(narrow), kernels(preferred) {}
  Bf16Products bf16;
  GemmKernels kernels;
};

}  // namespace mxtape
