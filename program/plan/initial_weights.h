#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/hdf5/token_file.h"
#include "interop/import.h"
#include "kernels/backend.h"
#include "nn/model.h"
#include "program/records/lineage.h"
#include "program/records/run_folder.h"

namespace mxtape {

/// What a new run begins with, train.init: the weights, [model] and tokenizer of a run, a checkpoint or an
/// import, or of a model from elsewhere, which is read as `mxtape import` reads it (docs/interop.md).
class InitialWeights {
 public:
  /// `init`: what checkpoint_of() (program/records/run_name.h) takes, a Hugging Face folder, or llm.c's
  /// model.bin. Reads no weight of the last two yet. Throws Error(data), with train.init in front, where
  /// there is nothing and for what cannot be used.
  explicit InitialWeights(const std::string& init);

  const ModelConfig& model() const { return model_; }
  /// The run's, or that of a model from elsewhere; empty if the weights are a file alone.
  const std::filesystem::path& folder() const { return folder_; }
  /// The checkpoint, or the folder or file of another program.
  const std::filesystem::path& file() const { return file_; }
  /// For people: "models/gpt2/checkpoints/step_00000000.h5, step 0 of gpt2".
  std::string text() const;
  /// What of it was not read, or was taken on trust.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Throws Error(usage) if the weights are those of the run that would begin with them.
  void check_folder(const std::filesystem::path& run) const;
  /// The data's tokens must be those that the weights know. A model without a tokenizer takes any that has
  /// room in its table: a note says so. Throws Error(data).
  void check_tokens(const TokenFile&, const std::string& data_file);
  /// Puts the weights into a new model, as before its first step. Rows of a larger vocabulary stay as they
  /// were drawn, positions beyond a shorter context are left out. Returns their content hash: XXH3-128 of all
  /// names, shapes and f32 numbers, the same for the same weights whatever they lie in. Throws Error(data)
  /// for a tensor that is missing, too many, or of another shape than take_model()
  /// (recipes/text/reader.h) allows.
  std::string load(Backend&, Model&) const;
  /// load() into a model that takes no memory: what it would return and throw.
  std::string content_hash(const ModelConfig& here) const;

  /// For lineage: the event "init", with what of the model differs.
  Turn turn(const std::string& hash, const ModelConfig& here) const;
  /// The past of the weights, for with_turn().
  const std::string& lineage() const { return lineage_; }

 private:
  void open_checkpoint();
  void open_foreign();

  std::string init_;
  std::filesystem::path file_;
  std::filesystem::path folder_;  ///< that may have a tokenizer's files; empty: none
  std::string name_;              ///< of the recipe, or of the folder or file
  std::int64_t step_ = -1;        ///< of a checkpoint
  ModelConfig model_;
  Tokenizer tokenizer_;
  std::string lineage_;
  std::vector<TensorInParts> tensors_;
  std::vector<std::string> notes_;
};

/// The content hash of the weights that a run began with by train.init; empty if it began otherwise or does
/// not say. Throws Error(data) for a parent.json that is none.
std::string initial_hash_of(const std::filesystem::path& run);

}  // namespace mxtape
