#include "optim/adamw.h"

#include <cmath>
#include <utility>

namespace mxtape {

AdamW::AdamW(Backend& backend, std::vector<Parameter*> parameters, const AdamWConfig& config)
    : backend_(backend),
      parameters_(std::move(parameters)),
      config_(config),
      norm_(backend.empty({1})),
      factor_(backend.empty({1})) {
  for (const Parameter* p : parameters_)
    for (auto* moments : {&m_, &v_}) {
      moments->push_back(backend.empty(p->value.shape()));
      backend.fill(moments->back(), 0);
    }
}

float AdamW::step(float factor) {
  std::vector<Tensor> gradients;
  for (const Parameter* p : parameters_) {
    require(p->has_grad, "adamw: parameter '{}' has no gradient; it took no part in the loss", p->name);
    gradients.push_back(p->grad);
  }
  backend_.clip_factor(norm_, factor_, gradients, config_.clip_norm);
  float norm = 0;
  backend_.download(&norm, norm_);
  if (!std::isfinite(norm)) return norm;

  const double t = double(++steps_);
  AdamWStep update{.learning_rate = config_.learning_rate * factor,
                   .beta1 = config_.beta1,
                   .beta2 = config_.beta2,
                   .eps = config_.eps,
                   .weight_decay = 0,
                   .correction1 = float(1 - std::pow(double(config_.beta1), t)),
                   .correction2 = float(1 - std::pow(double(config_.beta2), t))};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = *parameters_[i];
    update.weight_decay = p.decay ? config_.weight_decay : 0;
    backend_.adamw(p.value, m_[i], v_[i], p.grad, factor_, update);
    p.has_grad = false;
    p.version = std::uint64_t(steps_) + 1;
  }
  return norm;
}

void AdamW::set_steps_done(std::int64_t n) {
  steps_ = n;
  for (Parameter* p : parameters_) {
    p->version = std::uint64_t(n) + 1;
    p->copies = {};
  }
}

}  // namespace mxtape
