#pragma once
#include "nn/causal_self_attention.h"
#include "nn/layer_norm.h"
#include "nn/mlp.h"

namespace mxtape {

/// x = x + attention(norm1(x)); x = x + mlp(norm2(x)).
struct Block {
  Block(const Initialiser&, const GptConfig&, std::int64_t index);

  Var operator()(Tape&, const Var& x);
  void collect(std::vector<Parameter*>&);

  std::string name;
  LayerNorm norm1;
  CausalSelfAttention attention;
  LayerNorm norm2;
  Mlp mlp;
};

}  // namespace mxtape
