#include "nn/embedding.h"

namespace mxtape {

Embedding::Embedding(const Initialiser& make, const GptConfig& c)
    : table_(make.normal("tokens.weight", {c.vocabulary, c.width}, c.init_deviation, 0)),
      positions_(make.normal("positions.weight", {c.context, c.width}, c.init_deviation, 1)),
      dropout_(c.dropout) {}

Var Embedding::operator()(Tape& tape, const Tensor& tokens, DType dtype) {
  static const std::string name = "embedding";
  const Tape::Layer layer(tape, name);
  return ops::dropout(tape, ops::embedding(tape, tokens, table_, &positions_, dtype), dropout_, 2);
}

void Embedding::collect(std::vector<Parameter*>& all) {
  all.push_back(&table_);
  all.push_back(&positions_);
}

}  // namespace mxtape
