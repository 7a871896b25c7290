#include "nn/layers.h"

#include <utility>

namespace mxtape {

Parameter Initialiser::normal(std::string name, Shape shape, float deviation, std::uint32_t tensor_id) const {
  Parameter p{.name = std::move(name), .value = backend.empty(shape), .decay = shape.rank >= 2};
  backend.run(call::Normal{p.value, deviation, {seed, Purpose::initialisation, tensor_id, 0, 0}});
  return p;
}

Parameter Initialiser::constant(std::string name, Shape shape, float value) const {
  Parameter p{.name = std::move(name), .value = backend.empty(shape), .decay = shape.rank >= 2};
  backend.fill(p.value, value);
  return p;
}

Linear::Linear(const Initialiser& make, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
               float deviation, std::uint32_t tensor_id)
    : name_(name),
      weight_(make.normal(name + ".weight", {out, in}, deviation, tensor_id)),
      tensor_id_(tensor_id) {
  if (bias) bias_ = make.constant(name + ".bias", {out}, 0);
}

Var Linear::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  return ops::linear(tape, x, weight_, bias_ ? &*bias_ : nullptr, quant_, tensor_id_);
}

void Linear::collect(std::vector<Parameter*>& all) {
  all.push_back(&weight_);
  if (bias_) all.push_back(&*bias_);
}

void Linear::set_precision(const LinearQuant& quant) {
  quant_ = quant;
  weight_.copies = {};
}

LayerNorm::LayerNorm(const Initialiser& make, const std::string& name, std::int64_t width, bool bias,
                     float eps, std::uint32_t tensor_id)
    : name_(name),
      gain_(make.constant(name + ".gain", {width}, 1)),
      eps_(eps),
      rounding_{.tensor_id = tensor_id} {
  if (bias) bias_ = make.constant(name + ".bias", {width}, 0);
}

Var LayerNorm::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  return ops::layer_norm(tape, x, gain_, bias_ ? &*bias_ : nullptr, eps_, rounding_);
}

void LayerNorm::collect(std::vector<Parameter*>& all) {
  all.push_back(&gain_);
  if (bias_) all.push_back(&*bias_);
}

Embedding::Embedding(const Initialiser& make, const ModelConfig& c)
    : table_(make.normal("tokens.weight", {c.vocabulary, c.width}, c.init_deviation, 0)),
      positions_(make.normal("positions.weight", {c.context, c.width}, c.init_deviation, 1)),
      dropout_(c.dropout) {}

Var Embedding::operator()(Tape& tape, const Tensor& tokens, DType dtype) {
  static const std::string name = "embedding";
  const Tape::Layer layer(tape, name);
  return ops::dropout(tape, ops::embedding(tape, tokens, table_, &positions_, dtype, rounding_), dropout_, 2);
}

void Embedding::collect(std::vector<Parameter*>& all) {
  all.push_back(&table_);
  all.push_back(&positions_);
}

CausalSelfAttention::CausalSelfAttention(const Initialiser& make, const std::string& name,
                                         const ModelConfig& c, std::uint32_t first_id)
    : name_(name),
      heads_(c.heads),
      dropout_(c.dropout),
      attention_dropout_(c.attention_dropout),
      first_id_(first_id),
      qkv_(make, name + ".qkv", c.width, 3 * c.width, c.bias, c.init_deviation, first_id + site::qkv),
      out_(make, name + ".out", c.width, c.width, c.bias, residual_deviation(c),
           first_id + site::attention_out) {}

Var CausalSelfAttention::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  const Var qkv = qkv_(tape, x);
  const Shape extents = qkv.value.shape();
  AttentionShape shape{extents[0], extents[1], heads_, extents[2] / (3 * heads_)};
  shape.dropout = attention_dropout_;
  const Var heads = ops::attention(tape, qkv, shape, quant_, first_id_ + site::attention);
  return ops::dropout(tape, out_(tape, heads), dropout_, first_id_ + site::attention_dropout);
}

void CausalSelfAttention::collect(std::vector<Parameter*>& all) {
  qkv_.collect(all);
  out_.collect(all);
}

void CausalSelfAttention::collect(std::vector<Linear*>& all) { all.insert(all.end(), {&qkv_, &out_}); }

Mlp::Mlp(const Initialiser& make, const std::string& name, const ModelConfig& c, std::uint32_t first_id)
    : name_(name),
      gelu_(c.gelu),
      dropout_(c.dropout),
      first_id_(first_id),
      up_(make, name + ".up", c.width, c.hidden(), c.bias, c.init_deviation, first_id + site::mlp_up),
      down_(make, name + ".down", c.hidden(), c.width, c.bias, residual_deviation(c),
            first_id + site::mlp_down) {}

Var Mlp::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  Var y = down_(tape, ops::gelu(tape, up_(tape, x), gelu_));
  return ops::dropout(tape, y, dropout_, first_id_ + site::mlp_dropout);
}

void Mlp::collect(std::vector<Parameter*>& all) {
  up_.collect(all);
  down_.collect(all);
}

void Mlp::collect(std::vector<Linear*>& all) { all.insert(all.end(), {&up_, &down_}); }

TransformerBlock::TransformerBlock(const Initialiser& make, const ModelConfig& c, std::int64_t index)
    : name(block_name(index)),
      norm1(make, name + ".norm1", c.width, c.bias, c.norm_eps, first_id(index + 1) + site::norm1),
      attention(make, name + ".attn", c, first_id(index + 1)),
      norm2(make, name + ".norm2", c.width, c.bias, c.norm_eps, first_id(index + 1) + site::norm2),
      mlp(make, name + ".mlp", c, first_id(index + 1)) {}

Var TransformerBlock::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name);
  Var middle = ops::add(tape, x, attention(tape, norm1(tape, x)));
  return ops::add(tape, middle, mlp(tape, norm2(tape, middle)));
}

void TransformerBlock::collect(std::vector<Parameter*>& all) {
  norm1.collect(all);
  attention.collect(all);
  norm2.collect(all);
  mlp.collect(all);
}

}  // namespace mxtape
