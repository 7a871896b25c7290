#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "kernels/backend.h"

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

/// What a device multiplies quicker: codes where the CPU has byte dot products (VNNI, SDOT) and its library
/// no matrix unit (AMX); else its library's values. Asks the instruction set, measures nothing.
GemmKernels quicker_gemm_kernels(std::string_view device);

/// "cpu", "cuda". Throws Error(usage) for devices that this build does not have, naming those it has, and for
/// attention or GEMM kernels that the device or this build does not have.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& = {});

/// How a device multiplies two bf16 operands: as they are, or widened to f32 first. Either way products are
/// exact.
enum class Bf16Products : bool { native, widened };
/// On a CPU what its GEMM library says of this machine and of its own settings; on a GPU always native.
Bf16Products bf16_products(std::string_view device);

/// All that decides how two operands are multiplied, besides their roundings.
struct Products {
  Products(Bf16Products narrow, GemmKernels preferred = GemmKernels::library)
      : bf16(narrow), kernels(preferred) {}
  Bf16Products bf16;
  GemmKernels kernels;
};

}  // namespace mxtape
