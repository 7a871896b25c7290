#pragma once
#include <memory>
#include <string>

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
};

/// "cpu", "cuda". Throws Error(usage) for devices that this build does not have, naming those it has, and for
/// attention kernels that the device or this build does not have.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& = {});

}  // namespace mxtape
