#pragma once
#include <initializer_list>
#include <string_view>

#include "kernels/forwarding_backend.h"

namespace mxtape {

/// Looks at every output of every kernel and throws Error(diverged) at the first number that is NaN or
/// infinite: "gemm: c [64, 384] holds a number that is not finite at element 7". Waits for
/// the device after each call and reads every output once more: for finding out why a run diverged, and for
/// tests. Results are those of the inner backend.
class CheckedBackend final : public ForwardingBackend {
 public:
  explicit CheckedBackend(Backend& inner) : ForwardingBackend(inner) {}

  /// Never recorded: every call of every step is looked at.
  std::vector<Tensor> repeat(const std::string&, const std::function<std::vector<Tensor>()>& work) override {
    return work();
  }

  void gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias = {},
            Write = Write::overwrite) override;
  void quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                const Tensor& column_sums = {}, Write sums = Write::overwrite) override;
  void pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) override;
  void unpack(const Tensor& y, const PackedTensor& x) override;
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override;
  void gelu(const Tensor& y, const Tensor& x, Gelu) override;
  void gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu) override;
  void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) override;
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
  void attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape, const AttentionQuant&,
                 const DrawKey& draws) override;
  void attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                          const Tensor& lse, AttentionShape, const AttentionQuant&,
                          const DrawKey& draws) override;
  void clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                   float max_norm) override;
  void adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
             const Tensor& factor, const Tensor& rates, const AdamWStep&, std::span<QuantizedCopy> copies,
             const DrawKey& draws) override;

 private:
  struct Output {
    std::string_view name;
    const Tensor& tensor;
  };
  void check(std::string_view kernel, std::initializer_list<Output>);
  void check_copies(std::string_view kernel, std::span<const QuantizedCopy>);
};

}  // namespace mxtape
