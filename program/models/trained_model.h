#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/hdf5/token_file.h"
#include "kernels/backend.h"
#include "nn/model.h"
#include "program/show/report.h"
#include "train/checkpoint.h"
#include "train/devices/passes.h"
#include "train/saved/packed_model.h"

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
  PassKey next_pass() const { return pass_key(header.recipe, header.step); }
};

/// From what checkpoint_of() (program/records/run_name.h) takes, or a packed model, on `device`, or the
/// recipe's if that is empty, with `gemm` in place of its choice of GEMMs. Throws Error(data).
TrainedModel load_trained_model(const std::string& run, const std::string& device = {},
                                std::optional<GemmChoice> gemm = {});

/// Scores a model in the precision that it has now, of that name, in nats; `look` hears how far it is.
using Scoring = std::function<double(const std::string& precision,
                                     const std::function<void(std::int64_t done, std::int64_t all)>& look)>;

/// What a model is measured on.
struct MeasuredData {
  std::string file;
  TokenFile tokens;
};
/// Throws Error(data) if the token file that `model` was trained with is not where its recipe says.
void require_data_of(const std::filesystem::path& model, const std::string& file);
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

/// The numbers that a tensor's codes stand for.
std::vector<float> unpacked(Backend&, const MxTensor&);

/// "layers 4, heads 4 (keys 2), width 128, context 64, vocabulary 65, rms norm, rope, swiglu: 795904
/// parameters". What GPT-2 has too is not named.
std::string model_text(const ModelConfig&);

/// Throws Error(data) if the data's tokens are not those that the checkpoint was trained with: its weights
/// know them by number, so no --allow-change could make up for it.
void require_same_tokenizer(const CheckpointHeader&, const std::filesystem::path& checkpoint,
                            const TokenFile&, const std::string& data_file);
/// The same of weights in `file` that know the tokens `there`; `option`: of `mxtape prepare`, that gives
/// them.
void require_same_tokenizer(const Tokenizer& there, const std::filesystem::path& file,
                            const std::string& option, const TokenFile&, const std::string& data_file);

/// Layers, formats, bits and bytes of a packed model, with the sum and its ratio to f32. For people, tensors
/// of one axis, norms and biases, are one line.
void put_packed_table(Report&, const PackedModelFile&);

}  // namespace mxtape
