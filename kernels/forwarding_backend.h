#pragma once
#include "kernels/backend.h"

namespace mxtape {

/// Hands every call to another backend: the base of those that watch calls. Override what is watched.
class ForwardingBackend : public Backend {
 public:
  /// `inner` must live as long as this.
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}
  std::string description() const override { return inner_.description(); }
  std::vector<std::string> choices() const override { return inner_.choices(); }

  Tensor empty(Shape shape, DType dtype = DType::f32) override { return inner_.empty(shape, dtype); }
  void upload(const Tensor& y, const void* host) override { inner_.upload(y, host); }
  void download(void* host, const Tensor& x) override { inner_.download(host, x); }
  void fill(const Tensor& y, float value) override { inner_.fill(y, value); }
  void copy(const Tensor& y, const Tensor& x) override { inner_.copy(y, x); }
  void normal(const Tensor& y, float deviation, const DrawKey& key) override {
    inner_.normal(y, deviation, key);
  }
  std::int64_t used_bytes() const override { return inner_.used_bytes(); }
  std::int64_t peak_bytes() const override { return inner_.peak_bytes(); }
  std::int64_t capacity_bytes() const override { return inner_.capacity_bytes(); }
  void trim() override { inner_.trim(); }
  std::int64_t first_nonfinite(const Tensor& x) override { return inner_.first_nonfinite(x); }
  void set_clocks(std::uint32_t pass, std::uint32_t update) override { inner_.set_clocks(pass, update); }
  /// Calls that are watched must be made each time: nothing is recorded.
  std::vector<Tensor> repeat(const std::string&, const std::function<std::vector<Tensor>()>& work) override {
    return work();
  }
  void forget(const std::string& name) override { inner_.forget(name); }

  void gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias = {},
            Write write = Write::overwrite) override {
    inner_.gemm(c, a, b, bias, write);
  }
  void quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                const Tensor& column_sums = {}, Write sums = Write::overwrite) override {
    inner_.quantize(copies, x, draws, column_sums, sums);
  }
  void pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) override {
    inner_.pack(y, x, draws);
  }
  void unpack(const Tensor& y, const PackedTensor& x) override { inner_.unpack(y, x); }

  void add(const Tensor& y, const Tensor& a, const Tensor& b) override { inner_.add(y, a, b); }
  void gelu(const Tensor& y, const Tensor& x, Gelu form) override { inner_.gelu(y, x, form); }
  void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu form) override {
    inner_.gelu_backward(dx, dy, x, form);
  }
  void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) override {
    inner_.dropout(y, x, p, key);
  }

  void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                  const Tensor& gain, const Tensor& bias, float eps) override {
    inner_.layer_norm(y, mean, rstd, x, gain, bias, eps);
  }
  void layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                           const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& gain,
                           Write gain_bias, const Tensor& others = {}) override {
    inner_.layer_norm_backward(dx, dgain, dbias, dy, x, mean, rstd, gain, gain_bias, others);
  }
  void softmax(const Tensor& y, const Tensor& x) override { inner_.softmax(y, x); }
  void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override {
    inner_.softmax_backward(dx, dy, y);
  }
  void cross_entropy(const Tensor& loss, const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                     const Tensor& targets, float scale) override {
    inner_.cross_entropy(loss, losses, dlogits, logits, targets, scale);
  }
  void embedding(const Tensor& y, const Tensor& table, const Tensor& positions,
                 const Tensor& tokens) override {
    inner_.embedding(y, table, positions, tokens);
  }
  void embedding_backward(const Tensor& dtable, const Tensor& dpositions, const Tensor& dy,
                          const Tensor& tokens, Write table, Write positions) override {
    inner_.embedding_backward(dtable, dpositions, dy, tokens, table, positions);
  }

  void attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape shape,
                 const AttentionQuant& quant, const DrawKey& draws) override {
    inner_.attention(o, lse, qkv, shape, quant, draws);
  }
  void attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                          const Tensor& lse, AttentionShape shape, const AttentionQuant& quant,
                          const DrawKey& draws) override {
    inner_.attention_backward(dqkv, d_o, qkv, o, lse, shape, quant, draws);
  }

  void clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                   float max_norm) override {
    inner_.clip_factor(norm, factor, gradients, max_norm);
  }
  void adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
             const Tensor& factor, const Tensor& rates, const AdamWStep& step,
             std::span<QuantizedCopy> copies = {}, const DrawKey& draws = {}) override {
    inner_.adamw(parameter, m, v, gradient, factor, rates, step, copies, draws);
  }

 protected:
  Backend& inner_;
};

}  // namespace mxtape
