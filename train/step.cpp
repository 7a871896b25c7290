#include "train/step.h"

#include "train/devices/losses.h"
#include "train/evaluate.h"

namespace mxtape {

Step::Step(Backend& backend, const Recipe& recipe, const Split& split, Model& model, Devices* devices)
    : backend_(backend),
      recipe_(recipe),
      model_(model),
      devices_(devices),
      exchange_(recipe.train.strands > 1
                    ? std::make_unique<Exchange>(backend, model.parameters(), recipe.train.strands, devices,
                                                 recipe.compute)
                    : nullptr),
      optimizer_(backend, model.parameters(), recipe.optim,
                 exchange_ ? exchange_->own() : std::vector<Range>(), recipe.precision.weight_average),
      passes_(backend, recipe, split, model) {
  if (exchange_ && recipe.train.gather == Gather::copies) exchange_->gather_copies(model.linear_weights());
}

void Step::set_precision(std::int64_t start, const PrecisionPlan& plan) {
  if (exchange_) exchange_->gather_values();
  forget();
  model_.set_precision(plan);
  passes_.kept = kept_for(plan, recipe_);
  if (exchange_) exchange_->set_precision(plan);
  // Two trainers may share a backend, but not what it has recorded.
  name_ = fmt::format("training from step {} by {}", start, fmt::ptr(this));
}

void Step::forget() {
  for (const char* piece : {"", ", update"}) backend_.forget(name_ + piece);
}

Step::Result Step::compute(std::int64_t steps, float factor) {
  losses_.clear();
  optimizer_.prepare(factor);
  const Tensor norm = exchange_ ? compute_rounds(steps) : compute_one_strand(steps);
  return {mean_of_losses(losses_, recipe_.train, devices_), download_scalar(backend_, norm)};
}

Tensor Step::compute_one_strand(std::int64_t steps) {
  const auto results = passes_.compute(name_, steps, 0, [&](std::vector<Tensor>& losses_and_norm) {
    losses_and_norm.push_back(optimizer_.update());
    // The next step's forward pass uses their memory.
    for (auto* parameter : model_.parameters()) parameter->grad = {};
  });
  read_losses(results);
  return results.back();
}

Tensor Step::compute_rounds(std::int64_t steps) {
  for (std::int64_t round = 0; round < exchange_->rounds(); ++round) {
    const std::int64_t strand = exchange_->strand_of(round);
    const auto after_node = exchange_->begin_round(round, pass_key(recipe_, steps, strand));
    const auto end = [&](std::vector<Tensor>&) { exchange_->end_strand(); };
    std::vector<Tensor> results;
    if (strand >= 0) results = passes_.compute(name_, steps, strand, end, after_node);
    // Before read_losses(), which waits for backward: the exchange begins while backward still runs.
    exchange_->add_round();
    if (strand >= 0) read_losses(results);
  }
  return exchange_->update(optimizer_, name_ + ", update");
}

void Step::read_losses(const std::vector<Tensor>& results) {
  for (std::int64_t micro = 0; micro < recipe_.train.accumulation; ++micro)
    losses_.push_back(download_scalar(backend_, results[std::size_t(micro)]));
}

}  // namespace mxtape
