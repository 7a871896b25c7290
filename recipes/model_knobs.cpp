#include <array>

#include "nn/model.h"
#include "recipes/rows.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 2> gelu_names{"tanh", "erf"};
constexpr std::array<std::string_view, 2> norm_names{"layer", "rms"};
constexpr std::array<std::string_view, 2> position_names{"learned", "rope"};
constexpr std::array<std::string_view, 2> mlp_names{"gelu", "swiglu"};
constexpr std::array<std::string_view, 3> rope_scaling_names{"none", "linear", "llama3"};

std::string_view kinds_of_models() {
  static const std::string text = [] {
    std::string all = "one of:";
    for (const ModelKind& kind : model_kinds()) all.append(" ").append(kind.name);
    return all;
  }();
  return text;
}
void check_model_kind(const std::string& text) { (void)model_kind(text); }

}  // namespace

std::vector<Knob> model_knobs(ModelConfig& m) {
  return {
      {"model.kind", &m.kind, "architecture", TextCheck{kinds_of_models(), check_model_kind}},
      {"model.vocabulary", &m.vocabulary, "size of the vocabulary; 0: the data's", between(0, 0x1p31 - 1)},
      {"model.layers", &m.layers, "blocks of attention and MLP", between(1, 1000)},
      {"model.heads", &m.heads, "attention heads", between(1, 1 << 16)},
      {"model.width", &m.width, "channels", between(1, 1 << 20)},
      {"model.context", &m.context, "tokens of a sequence", between(1, 1 << 24)},
      {"model.mlp_width", &m.mlp_width,
       "hidden channels of the MLP; 0: 4 x width, with swiglu 8/3 x width rounded up to a multiple of 64",
       between(0, 1 << 24)},
      {"model.bias", &m.bias, "biases in linear layers and layer norms"},
      {"model.tied_head", &m.tied_head, "the head's weight is the token embedding"},
      {"model.gelu", choice(m.gelu, gelu_names), "tanh: GPT-2's approximation; erf: exact"},
      {"model.dropout", &m.dropout, "dropout after the embedding, attention and MLP", fraction_below_one},
      {"model.attention_dropout", &m.attention_dropout, "dropout of attention's probabilities",
       fraction_below_one},
      {"model.norm_eps", &m.norm_eps, "added to the variance in norms", above(0)},
      {"model.init_deviation", &m.init_deviation,
       "standard deviation of initial weights; residual projections: over sqrt(2 x layers)", above(0)},
      {"model.norm", choice(m.norm, norm_names), "layer norm (GPT-2) or RMS norm (Llama)"},
      {"model.positions", choice(m.positions, position_names), "learned table, or rotary positions (RoPE)"},
      {"model.mlp", choice(m.mlp, mlp_names), "gelu: W gelu(U x); swiglu: W (silu(A x) B x)"},
      {"model.kv_heads", &m.kv_heads,
       "heads of keys and values, shared by heads / kv_heads query heads; 0: heads", between(0, 1 << 16)},
      {"model.head_width", &m.head_width, "channels of a head; 0: width / heads", between(0, 1 << 16)},
      {"model.rope_theta", &m.rope.theta, "theta: pair i of D channels turns by theta^(-2 i / D) a token",
       above(0)},
      {"model.rope_scaling", choice(m.rope.scaling, rope_scaling_names),
       "slower turns, for texts longer than in training"},
      {"model.rope_factor", &m.rope.factor, "factor by which turns are slowed", at_least(1)},
      {"model.rope_low", &m.rope.low,
       "llama3: below this many turns in rope_original tokens, slowed by rope_factor", above(0)},
      {"model.rope_high", &m.rope.high, "llama3: above this many turns, not slowed", above(0)},
      {"model.rope_original", &m.rope.original, "llama3: the context of training", between(0, 1 << 24)},
      {"model.qk_norm", &m.qk_norm, "RMS norm of each query and key before RoPE (Qwen3)"},
      {"model.qkv_bias", &m.qkv_bias, "biases of queries, keys and values, even without bias (Qwen2)"},
  };
}

}  // namespace mxtape
