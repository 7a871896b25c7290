#pragma once
#include <memory>
#include <utility>

#include "kernels/forwarding_backend.h"

namespace mxtape {

/// A backend whose kernels know f32 activations, made to take bf16 ones: what a kernel reads is widened
/// (exact), what it writes is computed in f32 and rounded to nearest even. So the CPU runs every recipe, as
/// the reference for devices that keep activations in bf16; it costs two more passes over each tensor and f32
/// scratch.
class Bf16Activations final : public ForwardingBackend {
 public:
  explicit Bf16Activations(std::unique_ptr<Backend> inner)
      : ForwardingBackend(*inner), owned_(std::move(inner)) {}

  void gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias = {},
            Write write = Write::overwrite) override {
    require(c.dtype() == DType::f32 || write == Write::overwrite,
            "gemm: c is {} and added to; want f32, or a bf16 c that is overwritten", name_of(c.dtype()));
    const bool narrow = bias && c.dtype() == DType::bf16;
    out(c, [&](const Tensor& wide) { inner_.gemm(wide, a, b, narrow ? rounded(bias) : bias, write); });
  }
  void quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                const Tensor& column_sums = {}, Write sums = Write::overwrite) override {
    inner_.quantize(copies, in(x), draws, column_sums, sums);
  }
  void pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) override {
    inner_.pack(y, in(x), draws);
  }
  void unpack(const Tensor& y, const PackedTensor& x) override {
    out(y, [&](const Tensor& wide) { inner_.unpack(wide, x); });
  }

  void add(const Tensor& y, const Tensor& a, const Tensor& b) override {
    out(y, [&](const Tensor& wide) { inner_.add(wide, in(a), in(b)); });
  }
  void gelu(const Tensor& y, const Tensor& x, Gelu form) override {
    out(y, [&](const Tensor& wide) { inner_.gelu(wide, in(x), form); });
  }
  void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu form) override {
    out(dx, [&](const Tensor& wide) { inner_.gelu_backward(wide, in(dy), in(x), form); });
  }
  void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) override {
    out(y, [&](const Tensor& wide) { inner_.dropout(wide, in(x), p, key); });
  }

  void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                  const Tensor& gain, const Tensor& bias, float eps) override {
    out(y, [&](const Tensor& wide) { inner_.layer_norm(wide, mean, rstd, in(x), gain, bias, eps); });
  }
  void layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                           const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& gain,
                           Write gain_bias, const Tensor& others = {}) override {
    out(dx, [&](const Tensor& wide) {
      inner_.layer_norm_backward(wide, dgain, dbias, in(dy), in(x), mean, rstd, gain, gain_bias,
                                 others ? in(others) : others);
    });
  }
  void softmax(const Tensor& y, const Tensor& x) override {
    out(y, [&](const Tensor& wide) { inner_.softmax(wide, in(x)); });
  }
  void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override {
    out(dx, [&](const Tensor& wide) { inner_.softmax_backward(wide, in(dy), in(y)); });
  }
  void cross_entropy(const Tensor& loss, const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                     const Tensor& targets, float scale) override {
    out(dlogits,
        [&](const Tensor& wide) { inner_.cross_entropy(loss, losses, wide, in(logits), targets, scale); });
  }
  void embedding(const Tensor& y, const Tensor& table, const Tensor& positions,
                 const Tensor& tokens) override {
    out(y, [&](const Tensor& wide) { inner_.embedding(wide, table, positions, tokens); });
  }
  void embedding_backward(const Tensor& dtable, const Tensor& dpositions, const Tensor& dy,
                          const Tensor& tokens, Write table, Write positions) override {
    inner_.embedding_backward(dtable, dpositions, in(dy), tokens, table, positions);
  }

  void attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape shape,
                 const AttentionQuant& quant, const DrawKey& draws) override {
    out(o, [&](const Tensor& wide) { inner_.attention(wide, lse, in(qkv), shape, quant, draws); });
  }
  void attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                          const Tensor& lse, AttentionShape shape, const AttentionQuant& quant,
                          const DrawKey& draws) override {
    out(dqkv, [&](const Tensor& wide) {
      inner_.attention_backward(wide, in(d_o), in(qkv), in(o), lse, shape, quant, draws);
    });
  }

 private:
  Tensor in(const Tensor& x) {
    if (x.dtype() != DType::bf16) return x;
    const Tensor wide = inner_.empty(x.shape());
    inner_.copy(wide, x);
    return wide;
  }
  Tensor rounded(const Tensor& x) {
    const Tensor narrow = inner_.empty(x.shape(), DType::bf16);
    inner_.copy(narrow, x);
    return in(narrow);
  }
  template <class Compute>
  void out(const Tensor& y, const Compute& compute) {
    if (y.dtype() != DType::bf16) return compute(y);
    const Tensor wide = inner_.empty(y.shape());
    compute(wide);
    inner_.copy(y, wide);
  }

  std::unique_ptr<Backend> owned_;
};

}  // namespace mxtape
