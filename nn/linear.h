#pragma once
#include <optional>
#include <vector>

#include "autograd/ops.h"
#include "nn/initialise.h"

namespace mxtape {

/// y [..., N] = x [..., K] W^T + b; W [N, K], six operand slots.
class Linear {
 public:
  /// Uses tensor ids tensor_id to tensor_id + 2. W starts as N(0, deviation^2), b as 0.
  Linear(const Initialiser&, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
         float deviation, std::uint32_t tensor_id);

  Var operator()(Tape&, const Var& x);
  /// make_weight_copies() of its weight, for training.
  bool make_copies(Backend&, const PassKey&);
  void collect(std::vector<Parameter*>&);
  const std::string& name() const { return name_; }
  void set_precision(const LinearQuant&);

 private:
  std::string name_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  LinearQuant quant_;
  std::uint32_t tensor_id_;
};

}  // namespace mxtape
