#include "nn/block.h"

#include "nn/tensor_ids.h"

namespace mxtape {

Block::Block(const Initialiser& make, const GptConfig& c, std::int64_t index)
    : name(block_name(index)),
      norm1(make, name + ".norm1", c.width, c.bias, c.norm_eps),
      attention(make, name + ".attn", c, first_id(index + 1)),
      norm2(make, name + ".norm2", c.width, c.bias, c.norm_eps),
      mlp(make, name + ".mlp", c, first_id(index + 1)) {}

Var Block::operator()(Tape& tape, const Var& x) {
  const Tape::Layer layer(tape, name);
  Var middle = ops::add(tape, x, attention(tape, norm1(tape, x)));
  return ops::add(tape, middle, mlp(tape, norm2(tape, middle)));
}

void Block::collect(std::vector<Parameter*>& all) {
  norm1.collect(all);
  attention.collect(all);
  norm2.collect(all);
  mlp.collect(all);
}

}  // namespace mxtape
