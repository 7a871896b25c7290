#pragma once
#include "nn/config.h"
#include "nn/linear.h"

namespace mxtape {

/// y = W_down gelu(W_up x), then dropout.
class Mlp {
 public:
  /// `first_id` is the block's, see nn/tensor_ids.h.
  Mlp(const Initialiser&, const std::string& name, const GptConfig&, std::uint32_t first_id);

  Var operator()(Tape&, const Var& x);
  void collect(std::vector<Parameter*>&);
  void collect(std::vector<Linear*>&);

 private:
  std::string name_;
  Gelu gelu_;
  float dropout_;
  std::uint32_t first_id_;
  Linear up_, down_;
};

}  // namespace mxtape
