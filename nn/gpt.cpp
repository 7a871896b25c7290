#include "nn/gpt.h"

#include <optional>
#include <string_view>

#include "nn/key_value_cache.h"
#include "nn/layers.h"

namespace mxtape {
namespace {

std::vector<std::string> linear_layers(const ModelConfig& c) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < c.layers; ++i)
    for (const char* layer :
         {".attn.qkv", ".attn.out", c.mlp == MlpKind::swiglu ? ".mlp.gate_up" : ".mlp.up", ".mlp.down"})
      names.push_back(block_name(i) + layer);
  names.emplace_back("head");
  return names;
}

std::vector<std::string> attention_layers(const ModelConfig& c) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < c.layers; ++i) names.push_back(block_name(i) + ".attn");
  return names;
}

std::vector<std::string> parameter_layers(const ModelConfig& c) {
  std::vector<std::string> names{"embedding"};
  for (std::int64_t i = 0; i < c.layers; ++i)
    for (const char* layer : {".norm1", ".attn.q_norm", ".attn.k_norm", ".norm2"})
      if (c.qk_norm || std::string_view(layer).starts_with(".norm")) names.push_back(block_name(i) + layer);
  names.emplace_back("norm");
  return names;
}

std::int64_t count_parameters(const ModelConfig& c) {
  const std::int64_t C = c.width, D = c.head_channels(), F = c.hidden();
  const auto linear = [](std::int64_t in, std::int64_t out, bool bias) { return in * out + bias * out; };
  const std::int64_t norm = c.bias && c.norm == NormKind::layer ? 2 * C : C;
  const std::int64_t up = c.mlp == MlpKind::swiglu ? 2 * F : F;
  const std::int64_t attention =
      linear(C, c.qkv_width(), c.bias || c.qkv_bias) + c.qk_norm * 2 * D + linear(c.heads * D, C, c.bias);
  const std::int64_t block = 2 * norm + attention + linear(C, up, c.bias) + linear(F, C, c.bias);
  const std::int64_t positions = c.positions == Positions::learned ? c.context * C : 0;
  const std::int64_t head = c.tied_head ? 0 : c.vocabulary * C;
  return c.vocabulary * C + positions + c.layers * block + norm + head;
}

std::unique_ptr<Model> make(Backend& backend, const ModelConfig& config, const PrecisionPlan& plan,
                            std::uint64_t seed) {
  return std::make_unique<Gpt>(backend, config, plan, seed);
}

}  // namespace

struct Gpt::Layers {
  ModelConfig config;
  RotaryTables tables;  ///< of all blocks; empty if positions are learned
  Embedding embedding;
  std::vector<TransformerBlock> blocks;
  Norm norm;
  std::optional<Parameter> head;  ///< [V, C]; empty if the token embedding serves
  LinearQuant head_quant;
  DType activations = DType::f32;
  std::string mixture;  ///< why keys cannot be cached; empty if they can

  Layers(const Initialiser& make, const ModelConfig& c)
      : config(c),
        embedding(make, c),
        norm(make, "norm", c.width, c.norm, c.bias, c.norm_eps, head_id() + site::final_norm) {
    place_tables(make.backend);
    blocks.reserve(std::size_t(c.layers));
    for (std::int64_t i = 0; i < c.layers; ++i) blocks.emplace_back(make, c, tables, i);
    if (!c.tied_head) head = make.normal("head.weight", {c.vocabulary, c.width}, c.init_deviation, head_id());
  }
  void place_tables(Backend& backend) {
    if (config.positions == Positions::rope)
      tables = make_rotary_tables(backend, config.rope, config.head_channels(), config.context);
  }
  std::uint32_t head_id() const { return first_id(config.layers + 1); }
  Parameter& head_weight() { return head ? *head : embedding.table(); }
  /// Output of the last block, [B, T, C]. With a cache the tokens follow those in it.
  Var stream(Tape& tape, const Tensor& tokens, KeyValueCache* cache) {
    const std::int64_t before = cache ? cache->length() : 0;
    require(tokens.shape().rank == 2 && before + tokens.shape()[1] <= config.context, ExitCode::usage,
            "model: tokens are {} behind {} others, want [B, T] with T <= model.context = {}",
            tokens.shape().text(), before, config.context);
    Var x = embedding(tape, tokens, activations, before);
    for (TransformerBlock& block : blocks) {
      if (&block == &blocks.back()) tape.kept.recompute = Recompute::none;  // backward begins here
      x = block(tape, x, cache);
    }
    return x;
  }
  Var logits(Tape& tape, Var x) {
    x = norm(tape, x);
    static const std::string name = "head";
    const Tape::Layer layer(tape, name);
    return ops::linear(tape, std::move(x), head_weight(), nullptr, head_quant, head_id());
  }
  std::vector<Linear*> linears() {  ///< the head is not among them
    std::vector<Linear*> all;
    for (TransformerBlock& block : blocks) block.attention.collect(all), block.mlp.collect(all);
    return all;
  }
};

Gpt::Gpt(Backend& backend, const ModelConfig& config, const PrecisionPlan& plan, std::uint64_t seed) {
  layers_ = std::make_unique<Layers>(Initialiser{backend, seed}, config);
  set_precision(plan);
}
Gpt::~Gpt() = default;

Var Gpt::forward(Tape& tape, const Tensor& tokens) {
  return layers_->logits(tape, layers_->stream(tape, tokens, nullptr));
}

Var Gpt::extend(Tape& tape, const Tensor& tokens, KeyValueCache& cache) {
  const Var x = layers_->stream(tape, tokens, &cache);
  cache.advance(tokens.cols());
  return layers_->logits(tape, {last_rows(tape.backend(), x.value)});
}

std::string Gpt::no_cache() const { return layers_->mixture; }

std::vector<LinearWeight> Gpt::linear_weights() {
  Layers& l = *layers_;
  std::vector<LinearWeight> all;
  for (Linear* linear : l.linears()) all.push_back(linear->weight());
  all.push_back({"head", l.head_weight(), l.head_quant, l.head_id(), !l.head});
  return all;
}

std::vector<Parameter*> Gpt::parameters() {
  std::vector<Parameter*> all;
  layers_->embedding.collect(all);
  for (TransformerBlock& block : layers_->blocks) block.collect(all);
  layers_->norm.collect(all);
  if (layers_->head) all.push_back(&*layers_->head);
  return all;
}

void Gpt::place_constants(Backend& backend) { layers_->place_tables(backend); }

const ModelConfig& Gpt::config() const { return layers_->config; }

void Gpt::set_precision(const PrecisionPlan& plan) {
  const auto quant_of = [](const auto& by_name, const std::string& layer) {
    const auto found = by_name.find(layer);
    require(found != by_name.end(), "precision plan: no entry for layer '{}'", layer);
    return found->second;
  };
  Layers& l = *layers_;
  const std::size_t linear_count = gpt2_kind.linear_layers(l.config).size();
  require(plan.linear.size() == linear_count && plan.attention.size() == l.blocks.size(),
          "precision plan: {} linear and {} attention layers, the model has {} and {}", plan.linear.size(),
          plan.attention.size(), linear_count, l.blocks.size());
  for (Linear* linear : l.linears()) linear->set_precision(quant_of(plan.linear, linear->name()));
  for (TransformerBlock& block : l.blocks)
    block.attention.set_precision(quant_of(plan.attention, block.attention.name()));
  l.head_quant = quant_of(plan.linear, "head");
  const auto gain_of = [&](const std::string& layer) {
    const auto found = plan.parameters.find(layer);
    return found == plan.parameters.end() ? Quantizer{} : found->second;
  };
  std::vector<Norm*> norms{&l.norm};
  for (TransformerBlock& block : l.blocks) block.collect(norms);
  for (Norm* norm : norms) norm->set_precision(gain_of(norm->name()));
  l.embedding.set_precision(gain_of("embedding"));
  l.activations = plan.activations;
  l.mixture = mixes_tokens(plan);
  l.head_weight().forget_copies();
}

constinit const ModelKind gpt2_kind{"gpt2",           linear_layers, attention_layers,
                                    count_parameters, make,          parameter_layers};

}  // namespace mxtape
