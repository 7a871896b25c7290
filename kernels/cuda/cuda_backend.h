#pragma once
#include <array>
#include <map>
#include <memory>

#include "core/memory/arena.h"
#include "core/memory/pool.h"
#include "kernels/backend_options.h"
#include "kernels/calls_rows.h"
#include "kernels/cuda/cudnn/cudnn_attention.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/keys.h"
#include "kernels/cuda/stream.h"

namespace mxtape {

/// One NVIDIA GPU: cuBLASLt for GEMM, own kernels for the rest, everything in order on one stream. Results
/// are the same bits for the same shapes: reductions are cut by shape, never by the machine, and nothing is
/// added atomically. Quantizers give the CPU's bits. Kernels live in files by the groups below;
/// keys of random draws go through clocked(), so that a recorded step draws anew each time.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendOptions& = {});
  ~CudaBackend() override;
  std::string description() const override;
  void dispatch(AnyCall) override;
  void wait() override { stream_.wait(); }
  cudaStream_t stream() const { return stream_.get(); }
  GemmPath last_gemm() const override { return last_gemm_; }
  std::vector<std::string> choices() const override;

  // memory: cuda_backend.cpp, fill.cu
  Tensor empty(Shape, DType = DType::f32) override;
  void upload(const Tensor& y, const void* host) override;
  void download(void* host, const Tensor& x) override;
  std::int64_t used_bytes() const override { return pool_->used_bytes(); }
  std::int64_t peak_bytes() const override { return pool_->peak_bytes(); }
  std::int64_t capacity_bytes(int) const override;
  void trim() override;
  std::int64_t first_nonfinite(const Tensor& x) override;

  // a step that repeats: repeat.cpp
  void set_clocks(std::uint32_t pass, std::uint32_t update) override;
  std::vector<Tensor> repeat(const std::string& name,
                             const std::function<std::vector<Tensor>()>& work) override;
  void forget(const std::string& name) override;

 private:
  // fill.cu
  void compute(const call::Fill&);
  void compute(const call::Copy&);
  void compute(const call::Normal&);
  // gemm.cu
  void compute(const call::Gemm&);
  // quantize.cu, with quantize_tile.cu, quantize_by_definition.cu, tensor_scale.cu, rotation.cu
  void compute(const call::Quantize&);
  // quantize_backward.cu
  void compute(const call::Recode&);
  void compute(const call::QuantizeBackward&);
  // pointwise.cu
  void compute(const call::Add&);
  void compute(const call::Gelu&);
  void compute(const call::GeluBackward&);
  void compute(const call::Swiglu&);
  void compute(const call::SwigluBackward&);
  void compute(const call::Dropout&);
  // layer_norm.cu
  void compute(const call::Norm&);
  void compute(const call::NormBackward&);
  // cross_entropy.cu
  void compute(const call::CrossEntropy&);
  // rotary.cu
  void compute(const call::Rotary&);
  void compute(const call::RotaryBackward&);
  // embedding.cu
  void compute(const call::Embedding&);
  void compute(const call::EmbeddingBackward&);
  // attention*.cpp, attention*.cu
  void compute(const call::Attention&);
  void compute(const call::AttentionBackward&);
  // clip_factor.cu
  void compute(const call::Squares&);
  void compute(const call::ClipFactor&);
  // adamw.cu
  void compute(const call::AdamW&);
  void compute(const call::WeightAverage&);  // weight_average.cu

  /// `key` for a kernel: its step as a distance from the clock that it follows.
  cuda::ClockedKey clocked(const DrawKey& key) const;
  // pack.cu: what is stored, and back without the multiplier
  void pack(const Rounded& y, const Tensor& x, const Tensor& first_uncoded);
  void unpack(const Tensor& y, const Rounded& x);
  /// x rotated, or back, f32.
  Tensor rotated(const Tensor& x, const Quantization&, RotationWay = RotationWay::forth);

  /// What is known of work that repeats.
  struct Repeated {
    bool follows_plan = false;  // of its memory, in the last run
    std::int64_t too_long = 0;  // to be recorded: its requests for memory
    std::unique_ptr<cuda::Recording> recording;
    std::vector<Tensor> results;  // of the recording
  };

  BackendOptions options_;
  cuda::Stream stream_;
  std::shared_ptr<Pool> pool_;
  Arena arena_;
  cuda::GemmLibrary gemms_;
  GemmPath last_gemm_{};
  std::unique_ptr<cuda::CudnnAttention> cudnn_attention_;  // if the options ask for it
  Tensor clocks_;                                          // i32 [2]: pass, update
  std::array<std::uint32_t, 2> clock_values_{};            // the same, on the host
  std::map<std::string, Repeated> repeated_;
};

}  // namespace mxtape
