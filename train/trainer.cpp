#include "train/trainer.h"

#include <cmath>
#include <iterator>
#include <vector>

#include "train/strands/losses.h"

namespace mxtape {

Recipe with_vocabulary(Recipe recipe, const Tokenizer& tokenizer) {
  if (recipe.model.vocabulary == 0) recipe.model.vocabulary = tokenizer.size();
  require(recipe.model.vocabulary >= tokenizer.size(), ExitCode::data,
          "{}: its vocabulary has {} tokens, model.vocabulary is {}; want at least as many, or 0",
          recipe.data.file, tokenizer.size(), recipe.model.vocabulary);
  return recipe;
}

Trainer::Trainer(Backend& backend, const Recipe& recipe, const TokenFile& data, Devices* devices)
    : backend_(backend),
      recipe_(with_vocabulary(recipe, data.tokenizer)),
      data_(data),
      devices_(devices),
      model_(make_model(backend, recipe_.model, precision_plan(recipe_, 0), recipe.seed)),
      exchange_(recipe_.train.strands > 1
                    ? std::make_unique<Exchange>(backend, model_->parameters(), recipe_.train.strands,
                                                 devices, recipe_.compute)
                    : nullptr),
      optimizer_(backend, model_->parameters(), recipe_.optim,
                 exchange_ ? exchange_->own() : std::vector<Range>()),
      passes_(backend, recipe_, data.train, *model_) {
  if (exchange_ && recipe_.train.gather == Gather::copies) exchange_->gather_copies(model_->linear_weights());
  for (auto start : plan_changes(recipe_)) plans_.emplace(start, precision_plan(recipe_, start));
  const Devices::Together all(devices_, "start", devices_ ? to_toml(recipe_) : "");
}

Trainer::~Trainer() { forget_steps(); }

Trainer::StepResult Trainer::step() {
  const Devices::Together all(devices_, "step");
  use_precision_of_this_step();
  // What was recorded uses the weights' copies where they were: new ones lie elsewhere.
  if (model_->make_weight_copies(backend_, next_pass())) forget_steps();
  const float factor = learning_rate_factor(recipe_.schedule, steps_done_, recipe_.train.steps);
  optimizer_.prepare(factor);
  std::vector<float> losses;  // of the passes on this device
  Tensor norm_on_device;
  const auto read_losses = [&](const std::vector<Tensor>& results) {
    for (std::int64_t micro = 0; micro < recipe_.train.accumulation; ++micro)
      losses.push_back(download_scalar(backend_, results[std::size_t(micro)]));
  };
  if (!exchange_) {  // one strand
    const auto results = passes_.compute(step_name(), steps_done_, 0, [&](auto& losses_and_norm) {
      losses_and_norm.push_back(optimizer_.update());
      // The next step's forward pass uses their memory.
      for (auto* parameter : model_->parameters()) parameter->grad = {};
    });
    read_losses(results);
    norm_on_device = results.back();
  } else {
    for (std::int64_t round = 0; round < exchange_->rounds(); ++round) {  // at most one strand per device
      const std::int64_t strand = exchange_->strand_of(round);
      const auto after_node = exchange_->begin_round(round, pass_key(recipe_, steps_done_, strand));
      const auto end = [&](auto&) { exchange_->end_strand(); };
      std::vector<Tensor> results;
      if (strand >= 0) results = passes_.compute(step_name(), steps_done_, strand, end, after_node);
      // First: read_losses() waits for backward, and the exchange begins before that ends.
      exchange_->add_round();
      if (strand >= 0) read_losses(results);
    }
    norm_on_device = exchange_->update(optimizer_, step_name() + ", update");
  }
  const double loss = mean_of_losses(losses, recipe_.train, devices_);
  const float norm = download_scalar(backend_, norm_on_device);
  if (!std::isfinite(loss)) stop_diverged(std::isnan(loss) ? "the loss is nan" : "the loss is infinite");
  if (!std::isfinite(norm))
    stop_diverged(std::isnan(norm) ? "the gradient's norm is nan" : "the gradient's norm is infinite");
  optimizer_.advance();
  ++steps_done_;
  norm_ = norm;
  if (devices_ && recipe_.train.verify_every > 0 && steps_done_ % recipe_.train.verify_every == 0)
    require_same_replicas(state(), steps_done_, norm_);
  return {loss, norm, recipe_.optim.learning_rate * factor};
}

void Trainer::skip_step() {
  const Devices::Together all(devices_, "skip");
  if (exchange_) exchange_->gather_values();
  optimizer_.set_steps_done(++steps_done_);
}

void Trainer::use_precision_of_this_step() {
  const auto& [start, plan] = *std::prev(plans_.upper_bound(steps_done_));
  if (start == plan_start_) return;
  if (exchange_) exchange_->gather_values();
  forget_steps();
  model_->set_precision(plan);
  if (exchange_) exchange_->set_precision(plan);
  plan_start_ = start;
}

void Trainer::forget_steps() {
  for (const char* piece : {"", ", update"}) backend_.forget(step_name() + piece);
}

// Two trainers may share a backend, but not what it has recorded.
std::string Trainer::step_name() const {
  return fmt::format("training from step {} by {}", plan_start_, fmt::ptr(this));
}

Evaluation Trainer::validate(std::function<void(std::int64_t, std::int64_t)> progress) {
  const Devices::Together all(devices_, "validate");
  use_precision_of_this_step();
  backend_.trim();  // validation's buffers have other sizes: beside a step's they would raise the peak
  const std::int64_t windows = Windows(data_.validation, recipe_.model.context).count();
  const Evaluation result = evaluate(backend_, *model_, data_.validation,
                                     {.windows = validation_windows(recipe_.train, windows),
                                      .batch_size = recipe_.train.batch_size,
                                      .pass = next_pass(),
                                      .progress = std::move(progress),
                                      .devices = devices_});
  backend_.trim();
  return result;
}

void Trainer::save(const std::filesystem::path& path) {
  const Devices::Together all(devices_, "save");
  if (devices_) require_same_replicas(state(), steps_done_, norm_);
  backend_.trim();  // the image in memory takes the place of the step's activations
  save_state(state(), path, {steps_done_, recipe_, data_.tokenizer, data_.hash, lineage_});
}

void Trainer::load(const CheckpointFile& file) {
  require(steps_done_ == 0, "Trainer::load: {} steps are done; want a new Trainer", steps_done_);
  lineage_ = file.header().lineage;
  load_as_first_does(file.header().step, &file);
}

void Trainer::load_as_first_does(std::int64_t step, const CheckpointFile* file) {
  const Devices::Together all(devices_, "load", std::to_string(step));
  steps_done_ = step;
  load_state(state(), file, step > recipe_.optim.start);
  optimizer_.set_steps_done(step);
}

SharedState Trainer::state() {
  return {backend_, model_->parameters(), optimizer_, exchange_.get(), devices_};
}

}  // namespace mxtape
