#pragma once
#include <string>
#include <vector>

#include "program/models/tensor_numbers.h"
#include "train/checkpoint.h"

namespace mxtape {

/// What differs between two checkpoints; nothing, if everything is empty.
struct CheckpointDifference {
  struct Field {
    std::string name, a, b;
  };
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> dims;
    std::string misfit;  ///< "only in A", or other shapes or types: then nothing was compared
    TensorDifference values;
  };
  std::vector<Field> header;  ///< step, tokenizer, data_hash, written_by, precision
  /// "optim.beta2: 0.99 -> 0.95"; how a format is written does not count, nor what the run is called, or
  /// where
  std::vector<std::string> recipe;
  std::vector<Tensor> tensors;   ///< those that differ, by name, parameters first
  std::int64_t all_tensors = 0;  ///< of either

  bool none() const { return header.empty() && recipe.empty() && tensors.empty(); }
};
/// A checkpoint, or a packed model: what can be compared with another of its kind.
struct SavedModel {
  std::shared_ptr<const Hdf5Reader> file;
  CheckpointHeader header;
  std::string packed_as;  ///< empty: a checkpoint
};
/// Throws Error(data): missing, altered, neither of the two.
SavedModel open_saved_model(const std::filesystem::path&);

/// Throws Error(usage) if one is a checkpoint and one is packed.
CheckpointDifference difference_of(const SavedModel& a, const SavedModel& b);

}  // namespace mxtape
