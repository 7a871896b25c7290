#include "nn/causal_self_attention.h"

#include "nn/tensor_ids.h"

namespace mxtape {

CausalSelfAttention::CausalSelfAttention(const Initialiser& make, const std::string& name, const GptConfig& c,
                                         std::uint32_t first_id)
    : name_(name),
      heads_(c.heads),
      dropout_(c.dropout),
      first_id_(first_id),
      qkv_(make, name + ".qkv", c.width, 3 * c.width, c.bias, c.init_deviation, first_id + site::qkv),
      out_(make, name + ".out", c.width, c.width, c.bias, residual_deviation(c),
           first_id + site::attention_out) {}

Var CausalSelfAttention::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  Var heads = ops::causal_attention(tape, qkv_(tape, x), heads_, quant_, first_id_ + site::attention);
  return ops::dropout(tape, out_(tape, heads), dropout_, first_id_ + site::attention_dropout);
}

void CausalSelfAttention::collect(std::vector<Parameter*>& all) {
  qkv_.collect(all);
  out_.collect(all);
}

void CausalSelfAttention::collect(std::vector<Linear*>& all) { all.insert(all.end(), {&qkv_, &out_}); }

}  // namespace mxtape
