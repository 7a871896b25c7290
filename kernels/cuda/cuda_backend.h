#pragma once
#include <array>
#include <map>
#include <memory>

#include "core/arena.h"
#include "core/pool.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/gemm_library.h"
#include "kernels/cuda/keys.h"
#include "kernels/cuda/recording.h"
#include "kernels/cuda/stream.h"
#include "kernels/make_backend.h"

namespace mxtape {

/// One NVIDIA GPU: cuBLASLt for GEMM, own kernels for the rest, everything in order on one stream. Results
/// are the same bits for the same shapes: reductions are cut by shape, never by the machine, and nothing is
/// added atomically. Quantizers give the CPU's bits. Methods live in files by the group names of backend.h;
/// keys of random draws go through clocked(), so that a recorded step draws anew each time.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendOptions& = {});
  ~CudaBackend() override;
  std::string description() const override;
  std::vector<std::string> choices() const override;

  // memory: cuda_backend.cpp, fill.cu
  Tensor empty(Shape, DType = DType::f32) override;
  void upload(const Tensor& y, const void* host) override;
  void download(void* host, const Tensor& x) override;
  void fill(const Tensor& y, float value) override;
  void copy(const Tensor& y, const Tensor& x) override;
  void normal(const Tensor& y, float deviation, const DrawKey& key) override;
  std::int64_t used_bytes() const override;
  std::int64_t peak_bytes() const override;
  std::int64_t capacity_bytes() const override;
  void trim() override;
  std::int64_t first_nonfinite(const Tensor& x) override;

  // a step that repeats: repeat.cpp
  void set_clocks(std::uint32_t pass, std::uint32_t update) override;
  std::vector<Tensor> repeat(const std::string& name,
                             const std::function<std::vector<Tensor>()>& work) override;
  void forget(const std::string& name) override;

  // gemm.cu
  void gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias = {},
            Write = Write::overwrite) override;

  // quantize.cu, with quantize_tile.cu, quantize_by_definition.cu, tensor_scale.cu, rotation.cu
  void quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                const Tensor& column_sums = {}, Write sums = Write::overwrite) override;
  // pack.cu
  void pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) override;
  void unpack(const Tensor& y, const PackedTensor& x) override;

  // pointwise.cu
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override;
  void gelu(const Tensor& y, const Tensor& x, Gelu) override;
  void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu) override;
  void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) override;

  // layer_norm.cu, softmax.cu, embedding.cu
  void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                  const Tensor& gain, const Tensor& bias, float eps) override;
  void layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                           const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& gain,
                           Write gain_bias, const Tensor& others) override;
  void softmax(const Tensor& y, const Tensor& x) override;
  void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override;
  void cross_entropy(const Tensor& loss, const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                     const Tensor& targets, float scale) override;
  void embedding(const Tensor& y, const Tensor& table, const Tensor& positions,
                 const Tensor& tokens) override;
  void embedding_backward(const Tensor& dtable, const Tensor& dpositions, const Tensor& dy,
                          const Tensor& tokens, Write table, Write positions) override;

  // attention*.cpp, attention*.cu
  void attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape, const AttentionQuant&,
                 const DrawKey& draws) override;
  void attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                          const Tensor& lse, AttentionShape, const AttentionQuant&,
                          const DrawKey& draws) override;

  // clip_factor.cu, adamw.cu
  void clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                   float max_norm) override;
  void adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
             const Tensor& factor, const Tensor& rates, const AdamWStep&, std::span<QuantizedCopy> copies,
             const DrawKey& draws) override;

 private:
  /// `key` for a kernel: its step as a distance from the clock that it follows.
  cuda::ClockedKey clocked(const DrawKey& key) const;
  /// x rotated for `copy`, f32.
  Tensor rotated(const Tensor& x, const QuantizedCopy& copy);

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
  std::unique_ptr<cuda::CudnnAttention> cudnn_attention_;  // if the options ask for it
  Tensor clocks_;                                          // i32 [2]: pass, update
  std::array<std::uint32_t, 2> clock_values_{};            // the same, on the host
  std::map<std::string, Repeated> repeated_;
};

}  // namespace mxtape
