#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "kernels/around/checked_backend.h"
#include "recipes/phases/rollbacks.h"
#include "train/divergence/forensics.h"

namespace mxtape {

Recipe with_vocabulary(Recipe recipe, const Tokenizer& tokenizer) {
  if (recipe.model.vocabulary == 0) recipe.model.vocabulary = tokenizer.size();
  require(recipe.model.vocabulary >= tokenizer.size(), ExitCode::data,
          "{}: its vocabulary has {} tokens, model.vocabulary is {}; want at least as many, or 0",
          recipe.data.file, tokenizer.size(), recipe.model.vocabulary);
  return recipe;
}

Trainer::Trainer(Backend& backend, const Recipe& recipe, const TokenFile& data)
    : backend_(backend),
      recipe_(with_vocabulary(recipe, data.tokenizer)),
      data_(data),
      loader_(data.train, recipe.train.batch_size, recipe_.model.context, recipe.seed),
      model_(make_model(backend, recipe_.model, precision_plan(recipe_, 0), recipe.seed)),
      optimizer_(backend, model_->parameters(), recipe_.optim) {
  for (auto start : plan_changes(recipe_)) plans_.emplace(start, precision_plan(recipe_, start));
}

Trainer::~Trainer() { backend_.forget(step_name()); }

Trainer::StepResult Trainer::step() {
  use_precision_of_this_step();
  // A recorded step reads and renews the copies where they were.
  if (model_->make_weight_copies(backend_, next_pass())) backend_.forget(step_name());
  upload_batches();
  const float factor = learning_rate_factor(recipe_.schedule, steps_done_, recipe_.train.steps);
  optimizer_.prepare(factor);
  backend_.set_clocks(next_pass().step, std::uint32_t(steps_done_ + 1));
  const auto results = backend_.repeat(step_name(), [&] {
    std::vector<Tensor> losses_and_norm;
    for (std::int64_t micro = 0; micro < recipe_.train.accumulation; ++micro)
      losses_and_norm.push_back(micro_step(backend_, micro));
    losses_and_norm.push_back(optimizer_.update());
    // Until the next backward pass their memory serves its forward pass.
    for (auto* parameter : model_->parameters()) parameter->grad = {};
    return losses_and_norm;
  });

  double loss = 0;
  for (std::size_t micro = 0; micro + 1 < results.size(); ++micro)
    loss += double(download_scalar(backend_, results[micro]));
  loss /= double(recipe_.train.accumulation);
  const float norm = download_scalar(backend_, results.back());
  if (!std::isfinite(loss)) stop_diverged(std::isnan(loss) ? "the loss is nan" : "the loss is infinite");
  if (!std::isfinite(norm))
    stop_diverged(std::isnan(norm) ? "the gradient's norm is nan" : "the gradient's norm is infinite");
  optimizer_.advance();
  ++steps_done_;
  return {loss, norm, recipe_.optim.learning_rate * factor};
}

void Trainer::skip_step() { optimizer_.set_steps_done(++steps_done_); }

void Trainer::upload_batches() {
  batches_.resize(std::size_t(recipe_.train.accumulation));
  const auto first =
      next_pass().step + std::uint32_t(steps_passed_over(recipe_, steps_done_) * recipe_.train.accumulation);
  for (std::size_t micro = 0; micro < batches_.size(); ++micro) {
    const Batch batch = loader_.at(first + std::uint32_t(micro));
    auto& [inputs, targets] = batches_[micro];
    if (!inputs) {
      inputs = backend_.empty({batch.batch, batch.time}, DType::i32);
      targets = backend_.empty({batch.batch * batch.time}, DType::i32);
    }
    backend_.upload(inputs, batch.inputs.data());
    backend_.upload(targets, batch.targets.data());
  }
}

Tensor Trainer::micro_step(Backend& backend, std::int64_t micro) {
  PassKey pass = next_pass();
  pass.step += std::uint32_t(micro);
  const auto& [inputs, targets] = batches_[std::size_t(micro)];
  Tape tape(backend, Tape::Mode::training, pass, recipe_.compute.recompute);
  try {
    const Var logits = model_->forward(tape, inputs);
    static const std::string name = "loss";
    const Tape::Layer layer(tape, name);
    const Var loss = ops::cross_entropy(tape, logits, targets, 1 / float(recipe_.train.accumulation));
    tape.backward(loss);
    return loss.value;
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    fail(e.code(), "{}: {}", tape.place(), e.what());
  }
}

PassKey Trainer::next_pass() const {
  return {.seed = recipe_.seed, .step = std::uint32_t(steps_done_ * recipe_.train.accumulation)};
}

void Trainer::use_precision_of_this_step() {
  const auto& [start, plan] = *std::prev(plans_.upper_bound(steps_done_));
  if (start == plan_start_) return;
  backend_.forget(step_name());
  model_->set_precision(plan);
  plan_start_ = start;
}

// Two trainers may share a backend, but not what it has recorded.
std::string Trainer::step_name() const {
  return fmt::format("training from step {} by {}", plan_start_, fmt::ptr(this));
}

Evaluation Trainer::validate(std::function<void(std::int64_t, std::int64_t)> progress) {
  use_precision_of_this_step();
  backend_.trim();  // other sizes than a step's: kept beside them, they would raise the run's peak
  const std::int64_t all = Windows(data_.validation, recipe_.model.context).count();
  const Evaluation result = evaluate(backend_, *model_, data_.validation,
                                     {.windows = validation_windows(recipe_.train, all),
                                      .batch_size = recipe_.train.batch_size,
                                      .pass = next_pass(),
                                      .progress = std::move(progress)});
  backend_.trim();
  return result;
}

void Trainer::save(const std::filesystem::path& path) {
  backend_.trim();  // the image in memory takes the place of the step's activations
  write_checkpoint(path, {steps_done_, recipe_, data_.tokenizer, data_.hash, lineage_}, backend_,
                   model_->parameters(), optimizer_);
}

void Trainer::load(const CheckpointFile& file) {
  require(steps_done_ == 0, "Trainer::load: {} steps are done; want a new Trainer", steps_done_);
  file.read_parameters(backend_, model_->parameters());
  steps_done_ = file.header().step;
  if (steps_done_ > recipe_.optim.start) file.read_optimizer(backend_, model_->parameters(), optimizer_);
  optimizer_.set_steps_done(steps_done_);
  lineage_ = file.header().lineage;
}

void Trainer::stop_diverged(const std::string& what) {
  const std::string kernel = first_nonfinite_kernel();
  const std::string tensor = first_nonfinite_tensor(backend_, model_->parameters());
  // A caller may put the cause right and go on. What was recorded uses weight copies that are gone, and the
  // gradients are the bad step's.
  optimizer_.withdraw();
  backend_.forget(step_name());
  for (auto* parameter : model_->parameters()) parameter->grad = {}, parameter->has_grad = false;
  fail(ExitCode::diverged, "step {}: {}\n  {}\n  {}\n  the weights are still those after step {}",
       steps_done_ + 1, what, kernel, tensor, steps_done_);
}

/// Computes the step once more, up to the first kernel with a result that is not finite.
std::string Trainer::first_nonfinite_kernel() {
  optimizer_.withdraw();
  for (auto* parameter : model_->parameters()) parameter->has_grad = false;
  CheckedBackend checked(backend_);
  try {
    for (std::int64_t micro = 0; micro < recipe_.train.accumulation; ++micro) micro_step(checked, micro);
    return "every kernel's results are finite; the sum of the squared gradients overflows";
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    return std::string("first seen in ") + e.what();
  }
}

}  // namespace mxtape
