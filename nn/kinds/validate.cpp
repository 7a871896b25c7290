#include "nn/config.h"

#include <cmath>

namespace mxtape {
namespace {

void positive(const char* key, std::int64_t value) {
  require(value > 0, ExitCode::usage, "model.{} = {}; want an integer > 0", key, value);
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

}  // namespace mxtape
