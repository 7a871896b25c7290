#include "nn/config.h"

#include <cmath>

namespace mxtape {
namespace {

void positive(const char* key, std::int64_t value) {
  require(value > 0, ExitCode::usage, "model.{} = {}; want an integer > 0", key, value);
}

void validate_heads(const ModelConfig& c) {
  require(c.head_width >= 0, ExitCode::usage,
          "model.head_width = {}; want an integer > 0, or 0 for width / heads", c.head_width);
  require(c.head_width > 0 || c.width % c.heads == 0, ExitCode::usage,
          "model.width = {} is not a multiple of model.heads = {}; every head has width / heads channels, or "
          "model.head_width of them",
          c.width, c.heads);
  require(c.kv_heads >= 0 && c.heads % c.key_heads() == 0, ExitCode::usage,
          "model.kv_heads = {} does not divide model.heads = {}; each head of keys serves as many queries",
          c.kv_heads, c.heads);
}

void validate_positions(const ModelConfig& c) {
  const RopeConfig& r = c.rope;
  const bool turned = c.positions == Positions::rope;
  require(turned || !c.qk_norm, ExitCode::usage,
          "model.qk_norm = true with learned positions; want model.positions = \"rope\"");
  require(!turned || c.head_channels() % 2 == 0, ExitCode::usage,
          "heads of {} channels cannot be turned by pairs; want an even model.head_width, or model.width / "
          "model.heads",
          c.head_channels());
  require(std::isfinite(r.theta) && r.theta > 0, ExitCode::usage,
          "model.rope_theta = {}; want a finite number > 0", r.theta);
  require(std::isfinite(r.factor) && r.factor >= 1, ExitCode::usage,
          "model.rope_factor = {}; want a finite number >= 1", r.factor);
  if (turned && r.scaling == RopeScaling::llama3) {
    require(r.original > 0, ExitCode::usage,
            "model.rope_original = {}; \"llama3\" wants the context that the model was first trained with",
            r.original);
    require(r.low > 0 && r.high > r.low && std::isfinite(r.high), ExitCode::usage,
            "model.rope_low = {}, model.rope_high = {}; want 0 < low < high", r.low, r.high);
  }
}

}  // namespace

std::string block_name(std::int64_t index) { return fmt::format("blocks.{}", index); }

float residual_deviation(const ModelConfig& c) {
  return float(double(c.init_deviation) / std::sqrt(2.0 * double(c.layers)));
}

void validate(const ModelConfig& c) {
  require(c.vocabulary >= 0, ExitCode::usage,
          "model.vocabulary = {}; want an integer > 0, or 0 for the data's", c.vocabulary);
  positive("layers", c.layers);
  positive("heads", c.heads);
  positive("width", c.width);
  positive("context", c.context);
  require(c.mlp_width >= 0, ExitCode::usage, "model.mlp_width = {}; want an integer > 0, or 0 for {}",
          c.mlp_width, c.mlp == MlpKind::gelu ? "4 width" : "8/3 width, up to a multiple of 64");
  validate_heads(c);
  validate_positions(c);
  require(c.dropout >= 0 && c.dropout < 1, ExitCode::usage, "model.dropout = {}; want a number in [0, 1)",
          c.dropout);
  require(c.attention_dropout >= 0 && c.attention_dropout < 1, ExitCode::usage,
          "model.attention_dropout = {}; want a number in [0, 1)", c.attention_dropout);
  require(c.norm_eps > 0, ExitCode::usage, "model.norm_eps = {}; want a number > 0", c.norm_eps);
  require(c.init_deviation >= 0 && std::isfinite(c.init_deviation), ExitCode::usage,
          "model.init_deviation = {}; want a finite number >= 0", c.init_deviation);
}

}  // namespace mxtape
