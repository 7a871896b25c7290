#include "optim/adamw.h"

#include <cmath>
#include <utility>

#include "autograd/linear_operands.h"
#include "autograd/weight_average.h"

namespace mxtape {

AdamW::AdamW(Backend& backend, std::vector<Parameter*> parameters, const AdamWConfig& config,
             std::vector<Range> own, float average)
    : backend_(backend),
      parameters_(std::move(parameters)),
      config_(config),
      own_(std::move(own)),
      average_(average),
      norm_(backend.empty({1})),
      factor_(backend.empty({1})),
      rates_(backend.empty({3})) {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (auto* moments : {&m_, &v_}) {
      moments->emplace_back();
      if (!own_.empty() && own_[i].count == 0) continue;
      moments->back() = backend.empty(own_.empty() ? parameters_[i]->value.shape() : Shape{own_[i].count});
      backend.fill(moments->back(), 0);
    }
  if (keeps_averages()) begin_averages(backend, parameters_, true);
}

void AdamW::prepare(float factor) {
  const double t = double(steps_ + 1 - config_.start);
  const float rates[] = {config_.learning_rate * factor, float(1 - std::pow(double(config_.beta1), t)),
                         float(1 - std::pow(double(config_.beta2), t))};
  backend_.upload(rates_, rates);
}

Tensor AdamW::update() {
  std::vector<Tensor> gradients;
  for (const Parameter* p : parameters_) {
    require(p->has_grad, "adamw: parameter '{}' has no gradient; it took no part in the loss", p->name);
    gradients.push_back(p->grad);
  }
  return update(gradients, {});
}

Tensor AdamW::update(std::span<const Tensor> gradients, const Tensor& squares) {
  backend_.run(call::ClipFactor{norm_, factor_, squares ? std::span<const Tensor>() : gradients,
                                config_.clip_norm, squares});
  AdamWStep step{.beta1 = config_.beta1, .beta2 = config_.beta2, .eps = config_.eps, .weight_decay = 0};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = *parameters_[i];
    step.weight_decay = p.decay ? config_.weight_decay : 0;
    p.has_grad = false;
    if (own_.empty()) {  // the call also rounds the new value into the copies at hand
      backend_.run(call::AdamW{p.value, m_[i], v_[i], gradients[i], factor_, rates_, step, next_copies(p)});
      follow_up(p);
    } else if (m_[i]) {
      const Tensor value = p.value.part(own_[i].first, {own_[i].count});
      backend_.run(call::AdamW{value, m_[i], v_[i], gradients[i], factor_, rates_, step});
    }
  }
  return norm_;
}

float AdamW::step(float factor) {
  prepare(factor);
  float norm = 0;
  backend_.download(&norm, update());
  std::isfinite(norm) ? advance() : withdraw();
  return norm;
}

void AdamW::advance() {
  ++steps_;
  for (Parameter* p : parameters_) count_update(*p);
}

void AdamW::withdraw() {
  for (Parameter* p : parameters_) p->written(p->version);
}

void AdamW::set_steps_done(std::int64_t n) {
  steps_ = n;
  for (Parameter* p : parameters_) p->written(std::uint64_t(n) + 1);
}

}  // namespace mxtape
