#include "nn/linear.h"

#include "autograd/weight_copies.h"

namespace mxtape {

Linear::Linear(const Initialiser& make, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
               float deviation, std::uint32_t tensor_id)
    : name_(name),
      weight_(make.normal(name + ".weight", {out, in}, deviation, tensor_id)),
      tensor_id_(tensor_id) {
  if (bias) bias_ = make.constant(name + ".bias", {out}, 0);
}

Var Linear::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  return ops::linear(tape, x, weight_, bias_ ? &*bias_ : nullptr, quant_, tensor_id_);
}

bool Linear::make_copies(Backend& backend, const PassKey& pass) {
  return make_weight_copies(backend, weight_, quant_, pass, tensor_id_, true);
}

void Linear::collect(std::vector<Parameter*>& all) {
  all.push_back(&weight_);
  if (bias_) all.push_back(&*bias_);
}

void Linear::set_precision(const LinearQuant& quant) {
  quant_ = quant;
  weight_.copies = {};
}

}  // namespace mxtape
