#include "nn/layers.h"

#include <utility>

#include "autograd/round.h"
#include "nn/key_value_cache.h"

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

Var Linear::operator()(Tape& tape, Var x) {
  const Tape::Layer layer(tape, name_);
  return ops::linear(tape, std::move(x), weight_, bias_ ? &*bias_ : nullptr, quant_, tensor_id_);
}

void Linear::collect(std::vector<Parameter*>& all) {
  all.push_back(&weight_);
  if (bias_) all.push_back(&*bias_);
}

void Linear::set_precision(const LinearQuant& quant) {
  quant_ = quant;
  weight_.forget_copies();
}

Norm::Norm(const Initialiser& make, const std::string& name, std::int64_t width, NormKind kind, bool bias,
           float eps, std::uint32_t tensor_id)
    : name_(name),
      kind_(kind),
      gain_(make.constant(name + ".gain", {width}, 1)),
      eps_(eps),
      rounding_{.tensor_id = tensor_id} {
  if (bias && kind == NormKind::layer) bias_ = make.constant(name + ".bias", {width}, 0);
}

Var Norm::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  return kind_ == NormKind::rms ? ops::rms_norm(tape, x, gain_, eps_, rounding_)
                                : ops::layer_norm(tape, x, gain_, bias_ ? &*bias_ : nullptr, eps_, rounding_);
}

ParameterUse Norm::gain(Tape& tape) {
  const Tape::Layer layer(tape, name_);
  return {&gain_, rounded(tape, gain_, rounding_, Slot::gain)};
}

void Norm::collect(std::vector<Parameter*>& all) {
  all.push_back(&gain_);
  if (bias_) all.push_back(&*bias_);
}

Embedding::Embedding(const Initialiser& make, const ModelConfig& c)
    : table_(make.normal("tokens.weight", {c.vocabulary, c.width}, c.init_deviation, 0)),
      dropout_(c.dropout) {
  if (c.positions == Positions::learned)
    positions_ = make.normal("positions.weight", {c.context, c.width}, c.init_deviation, 1);
}

Var Embedding::operator()(Tape& tape, const Tensor& tokens, DType dtype, std::int64_t first_position) {
  static const std::string name = "embedding";
  const Tape::Layer layer(tape, name);
  Parameter later, *positions = positions_ ? &*positions_ : nullptr;
  if (positions && first_position > 0) {
    const std::int64_t rows = positions_->value.rows() - first_position, C = positions_->value.cols();
    later.value = positions_->value.part(first_position * C, {rows, C});
    positions = &later;
  }
  return ops::dropout(tape, ops::embedding(tape, tokens, table_, positions, dtype, rounding_), dropout_, 2);
}

void Embedding::collect(std::vector<Parameter*>& all) {
  all.push_back(&table_);
  if (positions_) all.push_back(&*positions_);
}

CausalSelfAttention::CausalSelfAttention(const Initialiser& make, const std::string& name,
                                         const ModelConfig& c, const RotaryTables& tables,
                                         std::uint32_t first_id)
    : name_(name),
      heads_(c.heads),
      kv_heads_(c.key_heads()),
      dropout_(c.dropout),
      attention_dropout_(c.attention_dropout),
      eps_(c.norm_eps),
      first_id_(first_id),
      tables_(tables),
      qkv_(make, name + ".qkv", c.width, c.qkv_width(), c.bias || c.qkv_bias, c.init_deviation,
           first_id + site::qkv),
      out_(make, name + ".out", c.heads * c.head_channels(), c.width, c.bias, residual_deviation(c),
           first_id + site::attention_out) {
  const auto norm = [&](const char* of, std::uint32_t id) {
    return Norm(make, name + of, c.head_channels(), NormKind::rms, false, c.norm_eps, first_id + id);
  };
  if (c.qk_norm) q_norm_ = norm(".q_norm", site::q_norm), k_norm_ = norm(".k_norm", site::k_norm);
}

Var CausalSelfAttention::operator()(Tape& tape, Var x, KeyValueCache* cache) {
  const Tape::Layer layer(tape, name_);
  Var qkv = qkv_(tape, std::move(x));
  if (tables_.cos) {
    const ParameterUse q = q_norm_ ? q_norm_->gain(tape) : ParameterUse{},
                       k = k_norm_ ? k_norm_->gain(tape) : ParameterUse{};
    qkv = ops::rotary(tape, std::move(qkv), heads_, kv_heads_, tables_, q, k, eps_,
                      cache ? cache->length() : 0);
  }
  const Shape extents = qkv.value.shape();
  AttentionShape shape{extents[0], extents[1], heads_, extents[2] / (heads_ + 2 * kv_heads_), kv_heads_};
  shape.dropout = attention_dropout_;
  const std::uint32_t id = first_id_ + site::attention;
  Var heads =
      cache ? cache->attend(tape, qkv, shape, quant_, id) : ops::attention(tape, qkv, shape, quant_, id);
  qkv = {};
  return ops::dropout(tape, out_(tape, std::move(heads)), dropout_, first_id_ + site::attention_dropout);
}

void CausalSelfAttention::collect(std::vector<Parameter*>& all) {
  qkv_.collect(all);
  if (q_norm_) q_norm_->collect(all), k_norm_->collect(all);
  out_.collect(all);
}

void CausalSelfAttention::collect(std::vector<Linear*>& all) { all.insert(all.end(), {&qkv_, &out_}); }

void CausalSelfAttention::collect(std::vector<Norm*>& all) {
  if (q_norm_) all.insert(all.end(), {&*q_norm_, &*k_norm_});
}

Mlp::Mlp(const Initialiser& make, const std::string& name, const ModelConfig& c, std::uint32_t first_id)
    : name_(name),
      kind_(c.mlp),
      gelu_(c.gelu),
      dropout_(c.dropout),
      first_id_(first_id),
      up_(make, name + (kind_ == MlpKind::swiglu ? ".gate_up" : ".up"), c.width,
          c.hidden() * (kind_ == MlpKind::swiglu ? 2 : 1), c.bias, c.init_deviation, first_id + site::mlp_up),
      down_(make, name + ".down", c.hidden(), c.width, c.bias, residual_deviation(c),
            first_id + site::mlp_down) {}

Var Mlp::operator()(Tape& tape, Var x) {
  const Tape::Layer layer(tape, name_);
  x = up_(tape, std::move(x));
  x = kind_ == MlpKind::swiglu ? ops::swiglu(tape, x) : ops::gelu(tape, x, gelu_);
  return ops::dropout(tape, down_(tape, std::move(x)), dropout_, first_id_ + site::mlp_dropout);
}

void Mlp::collect(std::vector<Parameter*>& all) {
  up_.collect(all);
  down_.collect(all);
}

void Mlp::collect(std::vector<Linear*>& all) { all.insert(all.end(), {&up_, &down_}); }

TransformerBlock::TransformerBlock(const Initialiser& make, const ModelConfig& c, const RotaryTables& tables,
                                   std::int64_t index)
    : name(block_name(index)),
      norm1(make, name + ".norm1", c.width, c.norm, c.bias, c.norm_eps, first_id(index + 1) + site::norm1),
      attention(make, name + ".attn", c, tables, first_id(index + 1)),
      norm2(make, name + ".norm2", c.width, c.norm, c.bias, c.norm_eps, first_id(index + 1) + site::norm2),
      mlp(make, name + ".mlp", c, first_id(index + 1)) {}

Var TransformerBlock::operator()(Tape& tape, const Var& x, KeyValueCache* cache) {
  const Tape::Layer layer(tape, name);
  Var middle = ops::add(tape, x, attention(tape, norm1(tape, x), cache));
  return ops::add(tape, middle, mlp(tape, norm2(tape, middle)));
}

void TransformerBlock::collect(std::vector<Parameter*>& all) {
  norm1.collect(all);
  attention.collect(all);
  norm2.collect(all);
  mlp.collect(all);
}

void TransformerBlock::collect(std::vector<Norm*>& all) {
  all.push_back(&norm1);
  attention.collect(all);
  all.push_back(&norm2);
}

}  // namespace mxtape
