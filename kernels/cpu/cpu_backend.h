#pragma once
#include "core/pool.h"
#include "kernels/backend.h"

namespace mxtape {

/// The CPU: oneDNN for GEMM, our own loops (tier.h) for the rest, parallel_for over ranges cut by shape.
/// Results are the same bits for any number of threads; those of our loops on any tier, oneDNN's for one
/// version and instruction set of it. Methods live in files by the group names of backend.h.
class CpuBackend final : public Backend {
 public:
  CpuBackend();
  ~CpuBackend() override;
  std::string description() const override;

  // memory: cpu_backend.cpp
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
  void set_clocks(std::uint32_t, std::uint32_t) override {}  // keys carry their step: nothing is recorded
  std::vector<Tensor> repeat(const std::string&, const std::function<std::vector<Tensor>()>& work) override {
    return work();
  }
  void forget(const std::string&) override {}

  // gemm.cpp
  void gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias = {},
            Write = Write::overwrite) override;

  // quantize.cpp
  void quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                const Tensor& column_sums = {}, Write sums = Write::overwrite) override;
  // pack.cpp
  void pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) override;
  void unpack(const Tensor& y, const PackedTensor& x) override;

  // pointwise.cpp
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override;
  void gelu(const Tensor& y, const Tensor& x, Gelu) override;
  void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu) override;
  void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) override;

  // rows.cpp, embedding.cpp
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

  // attention.cpp, attention_by_tiles.cpp, attention_by_heads.cpp
  void attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape, const AttentionQuant&,
                 const DrawKey& draws) override;
  void attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                          const Tensor& lse, AttentionShape, const AttentionQuant&,
                          const DrawKey& draws) override;

  // update.cpp
  void clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                   float max_norm) override;
  void adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
             const Tensor& factor, const Tensor& rates, const AdamWStep&, std::span<QuantizedCopy> copies,
             const DrawKey& draws) override;

 private:
  /// x of bf16 as f32.
  Tensor widened(const Tensor& x);
  /// x after a copy's rotation.
  Tensor rotated(const Tensor& x, const QuantizedCopy&);

  std::shared_ptr<Pool> pool_;
};

}  // namespace mxtape
