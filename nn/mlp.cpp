#include "nn/mlp.h"

#include "nn/tensor_ids.h"

namespace mxtape {

Mlp::Mlp(const Initialiser& make, const std::string& name, const GptConfig& c, std::uint32_t first_id)
    : name_(name),
      gelu_(c.gelu),
      dropout_(c.dropout),
      first_id_(first_id),
      up_(make, name + ".up", c.width, c.hidden(), c.bias, c.init_deviation, first_id + site::mlp_up),
      down_(make, name + ".down", c.hidden(), c.width, c.bias, residual_deviation(c),
            first_id + site::mlp_down) {}

Var Mlp::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name_);
  Var y = down_(tape, ops::gelu(tape, up_(tape, x), gelu_));
  return ops::dropout(tape, y, dropout_, first_id_ + site::mlp_dropout);
}

void Mlp::collect(std::vector<Parameter*>& all) {
  up_.collect(all);
  down_.collect(all);
}

void Mlp::collect(std::vector<Linear*>& all) { all.insert(all.end(), {&up_, &down_}); }

}  // namespace mxtape
