#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "kernels/backend.h"
#include "nn/model.h"
#include "train/checkpoint.h"

namespace mxtape {

/// A model as a checkpoint left it, or as it was packed, with its recipe's precision at that step, ready for
/// evaluation.
struct TrainedModel {
  std::filesystem::path file;
  CheckpointHeader header;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::string packed_as;  ///< precision of a packed model, which takes no other; empty: a checkpoint

  /// Key of the pass that would come next in training.
  PassKey next_pass() const;
};

/// From what checkpoint_of() (program/records/run_name.h) takes, or a packed model, on `device`, or the
/// recipe's if that is empty, with `gemm` in place of its choice of GEMMs. Throws Error(data).
TrainedModel load_trained_model(const std::string& run, const std::string& device = {},
                                std::optional<GemmChoice> gemm = {});

/// What a model is measured on.
struct MeasuredData {
  std::string file;
  TokenFile tokens;
};
/// `given`, or the recipe's file if that is empty. Throws Error(data) if it is not there or its tokenizer is
/// another one.
MeasuredData read_data_of(const TrainedModel&, const std::string& given);

/// A checkpoint, or a packed model, without its tensors.
struct SavedModel {
  std::shared_ptr<const Hdf5Reader> file;
  CheckpointHeader header;
  std::string packed_as;  ///< empty: a checkpoint
};
/// Throws Error(data): missing, altered, neither of the two.
SavedModel open_saved_model(const std::filesystem::path&);

}  // namespace mxtape
