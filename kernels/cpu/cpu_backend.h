#pragma once
#include <atomic>

#include "core/memory/pool.h"
#include "kernels/backend.h"
#include "kernels/calls_rows.h"

namespace mxtape {

/// The CPU: vector loops (loops/tier.h), dot products of codes (integer/dots.h) and of bf16 (pairs/pairs.h),
/// parallel_for over ranges cut by shape. Results are the same bits for any number of threads; on which
/// machines, docs/platforms.md says. Kernels live in files by the groups below.
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(GemmKernels = GemmKernels::library);
  std::string description() const override;
  /// Throws Error(internal) for activations that are not f32: Bf16Activations takes those.
  void dispatch(AnyCall) override;
  GemmKernels gemm_kernels() const override { return gemm_kernels_; }
  bool narrows() const override { return true; }
  GemmPath last_gemm() const override { return last_gemm_; }

  // memory: cpu_backend.cpp
  Tensor empty(Shape, DType = DType::f32) override;
  void upload(const Tensor& y, const void* host) override;
  void download(void* host, const Tensor& x) override;
  std::int64_t used_bytes() const override { return pool_->used_bytes(); }
  std::int64_t peak_bytes() const override { return pool_->peak_bytes(); }
  std::int64_t capacity_bytes(int sharing) const override;
  void trim() override;
  std::int64_t first_nonfinite(const Tensor& x) override;
  void set_clocks(std::uint32_t, std::uint32_t) override {}  // keys carry their step: nothing is recorded
  std::vector<Tensor> repeat(const std::string&, const std::function<std::vector<Tensor>()>& work) override {
    return work();
  }
  void forget(const std::string&) override {}

 private:
  // Each in the file that is named after it or after its family: pointwise.cpp, rows.cpp, attention*.cpp.
  void compute(const call::Fill&);
  void compute(const call::Copy&);
  void compute(const call::Normal&);
  void compute(const call::Gemm&);
  void compute(const call::Quantize&);
  void compute(const call::Recode&);
  void compute(const call::QuantizeBackward&);
  void compute(const call::Add&);
  void compute(const call::Gelu&);
  void compute(const call::GeluBackward&);
  void compute(const call::Swiglu&);
  void compute(const call::SwigluBackward&);
  void compute(const call::Dropout&);
  void compute(const call::Embedding&);
  void compute(const call::EmbeddingBackward&);
  void compute(const call::Squares&);
  void compute(const call::ClipFactor&);
  void compute(const call::AdamW&);
  void compute(const call::WeightAverage&);
  void compute(const call::Norm&);
  void compute(const call::NormBackward&);
  void compute(const call::CrossEntropy&);
  void compute(const call::Rotary&);
  void compute(const call::RotaryBackward&);
  void compute(const call::Attention&);
  void compute(const call::AttentionBackward&);

  /// x after a rotation; or before it.
  Tensor rotated(const Tensor& x, const Quantization&, RotationWay = RotationWay::forth);

  std::shared_ptr<Pool> pool_;
  GemmKernels gemm_kernels_;
  std::atomic<GemmPath> last_gemm_{};  // heads run side by side
};

}  // namespace mxtape
