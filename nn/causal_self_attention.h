#pragma once
#include "nn/config.h"
#include "nn/linear.h"

namespace mxtape {

/// y = W_o attention(W_qkv x): all heads' queries, keys and values come from one GEMM. Vaswani et al. 2017,
/// arXiv:1706.03762, section 3.2, with a causal mask; dropout on y only.
class CausalSelfAttention {
 public:
  /// `first_id` is the block's, see nn/tensor_ids.h.
  CausalSelfAttention(const Initialiser&, const std::string& name, const GptConfig&, std::uint32_t first_id);

  Var operator()(Tape&, const Var& x);
  void collect(std::vector<Parameter*>&);
  void collect(std::vector<Linear*>&);
  const std::string& name() const { return name_; }
  void set_precision(const AttentionQuant& quant) { quant_ = quant; }

 private:
  std::string name_;
  std::int64_t heads_;
  float dropout_;
  std::uint32_t first_id_;
  Linear qkv_, out_;
  AttentionQuant quant_;
};

}  // namespace mxtape
