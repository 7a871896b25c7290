#include "nn/config.h"

#include <cmath>

namespace mxtape {
namespace {

void positive(const char* key, std::int64_t value) {
  require(value > 0, ExitCode::usage, "model.{} = {}; want an integer > 0", key, value);
}

}  // namespace

std::string block_name(std::int64_t index) { return fmt::format("blocks.{}", index); }

float residual_deviation(const GptConfig& c) {
  return float(double(c.init_deviation) / std::sqrt(2.0 * double(c.layers)));
}

std::vector<std::string> linear_layer_names(const GptConfig& c) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < c.layers; ++i)
    for (const char* layer : {".attn.qkv", ".attn.out", ".mlp.up", ".mlp.down"})
      names.push_back(block_name(i) + layer);
  names.emplace_back("head");
  return names;
}

std::vector<std::string> attention_layer_names(const GptConfig& c) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < c.layers; ++i) names.push_back(block_name(i) + ".attn");
  return names;
}

PrecisionPlan uniform_plan(const GptConfig& c, const LinearQuant& linear, const AttentionQuant& attention) {
  PrecisionPlan plan;
  for (const std::string& name : linear_layer_names(c)) plan.linear[name] = linear;
  for (const std::string& name : attention_layer_names(c)) plan.attention[name] = attention;
  return plan;
}

void validate(const GptConfig& c) {
  require(c.vocabulary >= 0, ExitCode::usage,
          "model.vocabulary = {}; want an integer > 0, or 0 for the data's", c.vocabulary);
  positive("layers", c.layers);
  positive("heads", c.heads);
  positive("width", c.width);
  positive("context", c.context);
  require(c.mlp_width >= 0, ExitCode::usage, "model.mlp_width = {}; want an integer > 0, or 0 for 4 width",
          c.mlp_width);
  require(c.width % c.heads == 0, ExitCode::usage,
          "model.width = {} is not a multiple of model.heads = {}; every head has width / heads channels",
          c.width, c.heads);
  require(c.dropout >= 0 && c.dropout < 1, ExitCode::usage, "model.dropout = {}; want a number in [0, 1)",
          c.dropout);
  require(c.norm_eps > 0, ExitCode::usage, "model.norm_eps = {}; want a number > 0", c.norm_eps);
  require(c.init_deviation >= 0 && std::isfinite(c.init_deviation), ExitCode::usage,
          "model.init_deviation = {}; want a finite number >= 0", c.init_deviation);
}

std::int64_t parameter_count(const GptConfig& c) {
  const std::int64_t C = c.width, bias = c.bias ? 1 : 0;
  const auto linear = [&](std::int64_t in, std::int64_t out) { return in * out + bias * out; };
  const std::int64_t norm = C + bias * C;
  const std::int64_t block =
      2 * norm + linear(C, 3 * C) + linear(C, C) + linear(C, c.hidden()) + linear(c.hidden(), C);
  const std::int64_t embedding = (c.vocabulary + c.context) * C;
  const std::int64_t head = c.tied_head ? 0 : c.vocabulary * C;
  return embedding + c.layers * block + norm + head;
}

}  // namespace mxtape
