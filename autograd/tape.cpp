#include "autograd/tape.h"

#include "kernels/calls_rows.h"

#include <algorithm>

namespace mxtape {

DrawKey Tape::key(Purpose purpose, std::uint32_t tensor_id, std::int64_t row_elements) const {
  return {pass_.seed, purpose, tensor_id, pass_.step, std::uint64_t(pass_.first_row * row_elements),
          Clock::pass};
}

GradIndex Tape::watch(Parameter& p) {
  if (!training()) return no_grad;
  grads_.emplace_back();
  parameters_.push_back(&p);
  if (watched_.insert(&p).second) first_uses_.emplace_back(nodes_.size(), &p);
  return GradIndex(grads_.size()) - 1;
}

Var Tape::input(Tensor value) {
  grads_.emplace_back();
  parameters_.push_back(nullptr);
  return {std::move(value), GradIndex(grads_.size()) - 1};
}

Tensor Tape::gradient(const Var& v) const {
  return v.grad == no_grad ? Tensor{} : grads_[std::size_t(v.grad)];
}

bool Tape::wants(std::initializer_list<GradIndex> inputs) const {
  return training() && std::any_of(inputs.begin(), inputs.end(), [](GradIndex s) { return s != no_grad; });
}

Var Tape::record(Tensor y, std::initializer_list<GradIndex> inputs, std::unique_ptr<Node> node) {
  if (!wants(inputs)) return {std::move(y)};
  Var v = input(std::move(y));
  nodes_.push_back({std::move(node), v.grad, layer_});
  return v;
}

const Node* Tape::producer(GradIndex grad) const {
  const auto entry = std::ranges::lower_bound(nodes_, grad, {}, &Entry::grad);
  return entry != nodes_.end() && entry->grad == grad ? entry->node.get() : nullptr;
}

void Tape::add(GradIndex to, Tensor dy) {
  if (to == no_grad) return;
  if (parameters_[std::size_t(to)]) {
    auto [grad, write] = target(to);
    if (write == Write::overwrite) return backend_.copy(grad, dy);
    if (dy.dtype() != grad.dtype()) {
      Tensor wide = backend_.empty(dy.shape());
      backend_.copy(wide, dy);
      dy = std::move(wide);
    }
    return backend_.run(call::Add{grad, grad, dy});
  }
  Tensor& sum = grads_[std::size_t(to)];
  if (!sum) {
    sum = std::move(dy);
  } else if (sum.unique()) {
    backend_.run(call::Add{sum, sum, dy});
  } else {
    Tensor fresh = backend_.empty(sum.shape(), sum.dtype());
    backend_.run(call::Add{fresh, sum, dy});
    sum = std::move(fresh);
  }
}

Tensor Tape::take(GradIndex grad) {
  return grad == no_grad ? Tensor{} : std::exchange(grads_[std::size_t(grad)], {});
}

Tape::Target Tape::target(GradIndex grad) {
  Parameter* p = grad == no_grad ? nullptr : parameters_[std::size_t(grad)];
  require(p != nullptr, "tape: grad {} is not a parameter's", grad);
  if (!p->grad) p->grad = backend_.empty(p->value.shape());
  return {p->grad, std::exchange(p->has_grad, true) ? Write::accumulate : Write::overwrite};
}

void Tape::backward(const Var& loss) {
  require(loss.value.count() == 1, "backward: loss has shape {}, want one element", loss.value.shape());
  require(loss.grad != no_grad, "backward: loss does not depend on any watched parameter");
  backward_ = true;
  seed_ = backend_.empty({1});
  backend_.fill(seed_, 1);
  add(loss.grad, seed_);
  std::vector<Parameter*> complete;
  for (auto entry = nodes_.rbegin(); entry != nodes_.rend(); ++entry) {
    enter(entry->layer);
    if (Tensor dy = std::exchange(grads_[std::size_t(entry->grad)], {}))
      entry->node->backward(*this, std::move(dy));
    entry->node.reset();
    const auto left = std::size_t(nodes_.rend() - entry) - 1;
    complete.clear();
    for (; !first_uses_.empty() && first_uses_.back().first >= left; first_uses_.pop_back())
      complete.push_back(first_uses_.back().second);
    if (after_node) after_node(complete);
  }
  nodes_.clear();
  backward_ = false;
  enter(nullptr);
}

std::string Tape::place() const {
  if (!layer_) return "";
  return backward_ ? *layer_ + ", backward" : *layer_;
}

}  // namespace mxtape
