#pragma once
#include <optional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "nn/initialise.h"

namespace mxtape {

/// Layer norm over the last axis; gain starts as 1, bias as 0.
class LayerNorm {
 public:
  LayerNorm(const Initialiser&, const std::string& name, std::int64_t width, bool bias, float eps);

  Var operator()(Tape&, const Var& x);
  void collect(std::vector<Parameter*>&);

 private:
  std::string name_;
  Parameter gain_;
  std::optional<Parameter> bias_;
  float eps_;
};

}  // namespace mxtape
