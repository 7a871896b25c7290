#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/calls_rows.h"
#include "kernels/cuda/stream.h"

namespace mxtape::cuda {

/// cuDNN's fused causal attention: what call::Attention is with every operand in bf16, in one kernel, with
/// P rounded before it is divided by its sum. Backward is the variant with one order of additions; it takes
/// scratch of 2 B H T^2 bytes. Head widths: cudnn_takes_width() (make_backend.h). Plans are made at the first
/// call with a shape, which must not be recorded.
class CudnnAttention {
 public:
  /// Scratch comes from `memory`. Throws Error(resource) if cuDNN is missing or too old, Error(usage) if this
  /// build has none.
  CudnnAttention(Backend& memory, const Stream&);
  ~CudnnAttention();
  std::string description() const;  ///< "cuDNN 9.19.0"

  /// call::Attention and AttentionBackward; bf16 tensors.
  void forward(const Tensor& o, const Tensor& lse, const Tensor& qkv, const AttentionShape&);
  void backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o, const Tensor& lse,
                const AttentionShape&);

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

}  // namespace mxtape::cuda
