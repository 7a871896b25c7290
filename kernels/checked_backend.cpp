#include "kernels/checked_backend.h"

namespace mxtape {

void CheckedBackend::check(std::string_view kernel, std::initializer_list<Output> outputs) {
  for (const auto& [name, tensor] : outputs) {
    if (!tensor) continue;  // an output that was not wanted
    const std::int64_t at = inner_.first_nonfinite(tensor);
    require(at < 0, ExitCode::diverged, "{}: {} {} holds a number that is not finite at element {}", kernel,
            name, tensor.shape().text(), at);
  }
}

void CheckedBackend::check_copies(std::string_view kernel, std::span<const QuantizedCopy> copies) {
  for (const QuantizedCopy& copy : copies)
    check(kernel, {{"values", copy.values}, {"multiplier", copy.multiplier}});
}

void CheckedBackend::gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias,
                          Write write) {
  inner_.gemm(c, a, b, bias, write);
  check("gemm", {{"c", c}});
}

void CheckedBackend::quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                              const Tensor& column_sums, Write sums) {
  inner_.quantize(copies, x, draws, column_sums, sums);
  check_copies("quantize", copies);
  check("quantize", {{"column sums", column_sums}});
}

void CheckedBackend::pack(const PackedTensor& y, const Tensor& x, const DrawKey& draws) {
  inner_.pack(y, x, draws);
  check("pack", {{"multiplier", y.multiplier}});
  std::int32_t at = -1;
  inner_.download(&at, y.first_uncoded);
  require(at < 0, ExitCode::diverged, "pack: element {} is NaN, for which '{}' has no code", at,
          to_text(y.quantizer));
}

void CheckedBackend::unpack(const Tensor& y, const PackedTensor& x) {
  inner_.unpack(y, x);
  check("unpack", {{"y", y}});
}

void CheckedBackend::add(const Tensor& y, const Tensor& a, const Tensor& b) {
  inner_.add(y, a, b);
  check("add", {{"y", y}});
}

void CheckedBackend::gelu(const Tensor& y, const Tensor& x, Gelu form) {
  inner_.gelu(y, x, form);
  check("gelu", {{"y", y}});
}

void CheckedBackend::gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, Gelu form) {
  inner_.gelu_backward(dx, dy, x, form);
  check("gelu_backward", {{"dx", dx}});
}

void CheckedBackend::dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) {
  inner_.dropout(y, x, p, key);
  check("dropout", {{"y", y}});
}

void CheckedBackend::layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                                const Tensor& gain, const Tensor& bias, float eps) {
  inner_.layer_norm(y, mean, rstd, x, gain, bias, eps);
  check("layer_norm", {{"mean", mean}, {"rstd", rstd}, {"y", y}});
}

void CheckedBackend::layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias,
                                         const Tensor& dy, const Tensor& x, const Tensor& mean,
                                         const Tensor& rstd, const Tensor& gain, Write gain_bias,
                                         const Tensor& others) {
  inner_.layer_norm_backward(dx, dgain, dbias, dy, x, mean, rstd, gain, gain_bias, others);
  check("layer_norm_backward", {{"dx", dx}, {"dgain", dgain}, {"dbias", dbias}});
}

void CheckedBackend::softmax(const Tensor& y, const Tensor& x) {
  inner_.softmax(y, x);
  check("softmax", {{"y", y}});
}

void CheckedBackend::softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  inner_.softmax_backward(dx, dy, y);
  check("softmax_backward", {{"dx", dx}});
}

void CheckedBackend::cross_entropy(const Tensor& loss, const Tensor& losses, const Tensor& dlogits,
                                   const Tensor& logits, const Tensor& targets, float scale) {
  inner_.cross_entropy(loss, losses, dlogits, logits, targets, scale);
  check("cross_entropy", {{"losses", losses}, {"loss", loss}, {"dlogits", dlogits}});
}

void CheckedBackend::embedding(const Tensor& y, const Tensor& table, const Tensor& positions,
                               const Tensor& tokens) {
  inner_.embedding(y, table, positions, tokens);
  check("embedding", {{"y", y}});
}

void CheckedBackend::embedding_backward(const Tensor& dtable, const Tensor& dpositions, const Tensor& dy,
                                        const Tensor& tokens, Write table, Write positions) {
  inner_.embedding_backward(dtable, dpositions, dy, tokens, table, positions);
  check("embedding_backward", {{"dtable", dtable}, {"dpositions", dpositions}});
}

void CheckedBackend::attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape shape,
                               const AttentionQuant& quant, const DrawKey& draws) {
  inner_.attention(o, lse, qkv, shape, quant, draws);
  check("attention", {{"lse", lse}, {"o", o}});
}

void CheckedBackend::attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv,
                                        const Tensor& o, const Tensor& lse, AttentionShape shape,
                                        const AttentionQuant& quant, const DrawKey& draws) {
  inner_.attention_backward(dqkv, d_o, qkv, o, lse, shape, quant, draws);
  check("attention_backward", {{"dqkv", dqkv}});
}

void CheckedBackend::clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                                 float max_norm) {
  inner_.clip_factor(norm, factor, gradients, max_norm);
  check("clip_factor", {{"norm", norm}, {"factor", factor}});
}

void CheckedBackend::adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
                           const Tensor& factor, const Tensor& rates, const AdamWStep& step,
                           std::span<QuantizedCopy> copies, const DrawKey& draws) {
  inner_.adamw(parameter, m, v, gradient, factor, rates, step, copies, draws);
  check("adamw", {{"parameter", parameter}, {"m", m}, {"v", v}});
  check_copies("adamw", copies);
}

}  // namespace mxtape
