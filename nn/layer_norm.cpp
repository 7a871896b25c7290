#include "nn/layer_norm.h"

namespace mxtape {

LayerNorm::LayerNorm(const Initialiser& make, const std::string& name, std::int64_t width, bool bias,
                     float eps)
    : name_(name), gain_(make.constant(name + ".gain", {width}, 1)), eps_(eps) {
  if (bias) bias_ = make.constant(name + ".bias", {width}, 0);
}

Var LayerNorm::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  return ops::layer_norm(tape, x, gain_, bias_ ? &*bias_ : nullptr, eps_);
}

void LayerNorm::collect(std::vector<Parameter*>& all) {
  all.push_back(&gain_);
  if (bias_) all.push_back(&*bias_);
}

}  // namespace mxtape
