#include <ostream>

#include "autograd/tape.h"

namespace mxtape {

void Tape::print(std::ostream& out) const {
  out << fmt::format("{:>5}  {:<16} {:>14}  {}\n", "grad", "op", "saved bytes", "layer");
  for (const auto& [node, grad, layer] : nodes_)
    out << fmt::format("{:>5}  {:<16} {:>14}{}\n", grad, node->name(), node->saved_bytes(),
                       layer ? "  " + *layer : "");
  out << fmt::format("{:>5}  {:<16} {:>14}\n", "", "total", saved_bytes());
}

std::int64_t Tape::saved_bytes() const {
  std::int64_t sum = 0;
  for (const auto& entry : nodes_) sum += entry.node->saved_bytes();
  return sum;
}

}  // namespace mxtape
