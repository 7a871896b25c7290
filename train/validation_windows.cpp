#include "train/validation_windows.h"

#include <algorithm>

namespace mxtape {
namespace {

constexpr std::int64_t work_of_training = 3;  // a token's, in forward passes

/// Sequences that are trained on between two validations.
std::int64_t sequences_between(const TrainConfig& train) {
  const std::int64_t steps = train.eval_every ? std::min(train.eval_every, train.steps) : train.steps;
  return steps * train.batch_size * train.passes();
}

}  // namespace

std::int64_t validation_windows(const TrainConfig& train, std::int64_t all) {
  if (train.eval_windows == 0) return all;
  if (train.eval_windows != auto_windows) return std::min(train.eval_windows, all);
  constexpr std::int64_t share = 5;
  const std::int64_t fitting = work_of_training * sequences_between(train) / share;
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
