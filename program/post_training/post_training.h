#pragma once
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "program/models/cast.h"
#include "program/post_training/measurement.h"
#include "train/post_training/finetune.h"

namespace mxtape {

struct PostTrainingOptions {
  std::string run, device, data;  ///< the last two may be empty: the recipe's
  std::vector<std::string> precisions;
  std::vector<Setting> wanted;
  bool attention = false;
  std::int64_t windows = 0;  ///< of validation; 0: as the recipe says
  std::int64_t calibration = 32;
  std::uint64_t seed = 1;  ///< of the calibration's windows
  double damping = 0.01;
  FinetuneConfig finetune;
  std::filesystem::path out;  ///< folder for results and models; empty: none
  bool keep = false;
};

/// What was measured, on what.
struct PostTraining {
  std::string checkpoint, checkpoint_hash, data, data_hash;
  std::string arithmetic;  ///< arithmetic_of() the device
  std::int64_t step = 0, windows = 0, all_windows = 0, context = 0;
  std::int64_t calibration = 0;
  std::uint64_t seed = 0;
  double damping = 0;
  std::int64_t diffusion_bytes = 0;  ///< on the host, for the largest layer
  FinetuneConfig finetune{};         ///< its learning rate filled in
  std::int64_t finetune_batch = 0;   ///< sequences of a step
  bool attention = false;
  bool finetunes = false;           ///< something is finetuned
  std::vector<std::string> tied{};  ///< layers that error diffusion leaves to the cast
  std::optional<double> floor{};
  double f32 = 0;                           ///< loss of the unquantized model [nats per token]
  std::vector<Measurement> measurements{};  ///< by precision, then setting
};

/// How far it is, for people.
struct PostTrainingProgress {
  std::string what;                ///< "mxfp4 diffused"
  std::int64_t done = 0, all = 0;  ///< measurements
  double share = 0;                ///< of all the work
  const Measurement* finished = nullptr;
};

/// Measures a trained model in every precision and setting, and unrounded. With `out`, every result is
/// written there as it comes, and those that are there already are not measured again. `started` hears once
/// what will be measured. Throws Error(usage) for a packed model, a precision that cannot be diffused,
/// results of other options in `out`: all before the first measurement. A measurement that diverges is one
/// without a loss.
PostTraining run_post_training(const PostTrainingOptions&,
                               const std::function<void(const PostTraining&)>& started,
                               const std::function<void(const PostTrainingProgress&)>& progress);

Value value_of(const PostTraining&);

}  // namespace mxtape
