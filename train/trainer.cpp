#include "train/trainer.h"

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
      step_(backend, recipe_, data.train, *model_, devices) {
  const Devices::Collective all(devices_, "start", devices_ ? to_toml(recipe_) : "");
}

void Trainer::begin_phase(const std::string& rollback) {
  const Devices::Collective all(devices_, "phase", rollback);
  recipe_.train.rollbacks.push_back(rollback);
  recipe_.origins["train.rollbacks"] = "the run";
}

Trainer::StepResult Trainer::step() {
  const Devices::Collective all(devices_, "step");
  use_precision_of_this_step();
  // A recorded step reads the weights' copies at fixed addresses; new ones have others.
  if (step_.passes().kept.weights && model_->make_weight_copies(backend_, next_pass())) step_.forget();
  const float factor = learning_rate_factor(recipe_.schedule, steps_done_, recipe_.train.steps);
  const auto [loss, norm] = step_.compute(steps_done_, factor);
  require_finite(loss, "the loss");
  require_finite(norm, "the gradient's norm");
  step_.optimizer().advance();
  ++steps_done_;
  norm_ = norm;
  if (devices_ && recipe_.train.verify_every > 0 && steps_done_ % recipe_.train.verify_every == 0)
    require_same_replicas(state(), steps_done_, norm_);
  return {loss, norm, recipe_.optim.learning_rate * factor};
}

void Trainer::skip_step() {
  const Devices::Collective all(devices_, "skip");
  if (step_.exchange()) step_.exchange()->gather_values();
  step_.optimizer().set_steps_done(++steps_done_);
}

void Trainer::use_precision_of_this_step() {
  std::int64_t start = 0;
  for (const std::int64_t change : plan_changes(recipe_))
    if (change <= steps_done_) start = change;
  if (start != plan_start_) step_.set_precision(start, precision_plan(recipe_, start)), plan_start_ = start;
}

Evaluation Trainer::validate(std::function<void(std::int64_t, std::int64_t)> progress) {
  const Devices::Collective all(devices_, "validate");
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
  const Devices::Collective all(devices_, "save");
  if (devices_) require_same_replicas(state(), steps_done_, norm_);
  backend_.trim();  // the image in memory takes the place of the step's activations
  save_state(state(), path, {steps_done_, recipe_, data_.tokenizer, data_.hash, lineage_});
}

void Trainer::load(const CheckpointFile& file) {
  require(steps_done_ == 0, "Trainer::load: {} steps are done; want a new Trainer", steps_done_);
  lineage_ = file.header().lineage;
  load_shared(file.header().step, &file);
}

void Trainer::load_shared(std::int64_t step, const CheckpointFile* file) {
  const Devices::Collective all(devices_, "load", std::to_string(step));
  steps_done_ = step;
  load_state(state(), file, step > recipe_.optim.start);
  step_.optimizer().set_steps_done(step);
}

SharedState Trainer::state() {
  return {backend_, model_->parameters(), step_.optimizer(), step_.exchange(), devices_};
}

}  // namespace mxtape
