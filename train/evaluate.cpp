#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "train/devices/losses.h"

namespace mxtape {
namespace {

constexpr std::int64_t work_of_training = 3;  // a token's, in forward passes

}  // namespace

Tensor upload_tokens(Backend& backend, const std::vector<std::int32_t>& tokens, Shape shape) {
  const Tensor y = backend.empty(shape, DType::i32);
  backend.upload(y, tokens.data());
  return y;
}

float download_scalar(Backend& backend, const Tensor& x) {
  float value = 0;
  backend.download(&value, x);
  return value;
}

Evaluation evaluate(Backend& backend, Model& model, const Split& split, const EvaluateOptions& options) {
  const std::int64_t time = model.config().context;
  const Windows windows(split, time);
  const std::int64_t count = options.windows ? std::min(options.windows, windows.count()) : windows.count();
  const std::int64_t most = validation_windows_at_a_time(model.config(), options.batch_size);
  const auto batch_loss = [&](const Batch& batch) {
    Tape tape(backend, Tape::Mode::evaluation, options.pass);
    const Var logits = model.forward(tape, upload_tokens(backend, batch.inputs, {batch.batch, time}));
    const Tensor targets = upload_tokens(backend, batch.targets, {batch.batch * time});
    const Var rows{logits.value.reshaped({batch.batch * time, model.config().vocabulary})};
    Tensor losses;
    const Var mean = ops::cross_entropy(tape, rows, targets, 1, &losses);
    if (options.losses) options.losses(losses);
    return download_scalar(backend, mean.value);
  };
  std::vector<float> losses(std::size_t((count + most - 1) / most));
  compute_shared(losses, options.devices, [&](std::size_t i) {
    const std::int64_t first = std::int64_t(i) * most;
    const Batch batch = windows.at(first, std::min(most, count - first));
    const float loss = batch_loss(batch);
    if (options.progress) options.progress(first + batch.batch, count);
    return loss;
  });
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    sum += double(losses[i]) * double(std::min(most, count - std::int64_t(i) * most));
  const double loss = sum / double(count);
  if (options.devices) options.devices->agree();
  require(std::isfinite(loss), ExitCode::diverged, "evaluation: the loss is {}", std::abs(loss));  // not -nan
  return {loss, count * time, count, windows.count()};
}

std::int64_t validation_windows(const TrainConfig& train, std::int64_t all) {
  if (train.eval_windows == 0) return all;
  if (train.eval_windows != auto_windows) return std::min(train.eval_windows, all);
  constexpr std::int64_t share = 5;
  const std::int64_t steps = train.eval_every ? std::min(train.eval_every, train.steps) : train.steps;
  const std::int64_t fitting = work_of_training * (steps * train.batch_size * train.passes()) / share;
  return std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(all, 1));
}

double validation_share(const TrainConfig& train, std::int64_t windows) {
  const std::int64_t every = train.eval_every ? train.eval_every : train.steps;
  const double validations = double(train.steps / every + (train.steps % every != 0));
  const double validating = validations * double(windows);
  const double training =
      double(work_of_training) * double(train.steps) * double(train.batch_size) * double(train.passes());
  return validating / (validating + training);
}

std::int64_t validation_windows_at_a_time(const ModelConfig& model, std::int64_t batch_size) {
  constexpr std::int64_t most_elements = std::int64_t{4} << 20;
  return std::max(batch_size, most_elements / (model.context * std::max(model.vocabulary, model.hidden())));
}

}  // namespace mxtape
