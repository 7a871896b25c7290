#pragma once
#include <filesystem>
#include <memory>

#include "kernels/backend.h"
#include "nn/model.h"
#include "train/checkpoint.h"

namespace mxtape {

/// A model as a checkpoint left it, with its recipe's precision at that step, ready for evaluation.
struct TrainedModel {
  std::filesystem::path file;
  CheckpointHeader header;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;

  /// Key of the pass that would come next in training.
  PassKey next_pass() const;
};

/// From what checkpoint_of() (program/run_name.h) takes, on `device`, or the recipe's if that
/// is empty. Throws Error(data).
TrainedModel load_trained_model(const std::string& run, const std::string& device = {});

}  // namespace mxtape
