#include <string_view>

#include "nn/gpt.h"

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

constinit const ModelKind gpt2_kind{"gpt2",           linear_layers, attention_layers,
                                    count_parameters, make,          parameter_layers};

}  // namespace mxtape
