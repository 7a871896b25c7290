#pragma once
#include <vector>

#include "autograd/ops.h"
#include "nn/config.h"
#include "nn/initialise.h"

namespace mxtape {

/// x [B, T, C] = tokens.weight[token] + positions.weight[t], then dropout.
class Embedding {
 public:
  /// Uses tensor ids 0 to 2.
  Embedding(const Initialiser&, const GptConfig&);

  Var operator()(Tape&, const Tensor& tokens, DType);
  void collect(std::vector<Parameter*>&);
  /// [V, C], for a head that is tied to it.
  Parameter& table() { return table_; }

 private:
  Parameter table_, positions_;
  float dropout_;
};

}  // namespace mxtape
