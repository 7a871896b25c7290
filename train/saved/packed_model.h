#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/codec/mx_tensor.h"
#include "nn/model.h"
#include "train/saved/header.h"

namespace mxtape {

/// What a packed model says besides its tensors.
struct PackedHeader {
  CheckpointHeader model;   ///< its recipe's precision is the one that the weights are packed for
  std::string precision;    ///< as it was asked for: "recipe", "mxfp4", "mxfp4, weights only"
  std::string source_hash;  ///< content hash of the checkpoint
};

/// Writes a model as HDF5 with a seal (docs/packed.md): the weights of linear layers as the codes that the
/// forward pass of its precision multiplies by, everything else in f32. `model` has that precision, and its
/// parameters are those of step header.model.step. The file appears under its name whole or not at all, in
/// place of an earlier one. Throws Error(usage) if no layer rounds its weights; Error(data) naming the layer
/// if a weight has no code in its format; Error(resource) if the disk is full. `progress` hears of each
/// layer.
void write_packed_model(const std::filesystem::path&, const PackedHeader&, Backend&, Model& model,
                        const PassKey&,
                        const std::function<void(std::size_t done, std::size_t all)>& progress = {});

/// A packed model that has passed its content hash.
class PackedModelFile {
 public:
  /// Throws Error(data): missing, altered, no packed model, of another version.
  explicit PackedModelFile(const std::filesystem::path& path) : PackedModelFile(open_sealed(path)) {}
  explicit PackedModelFile(std::shared_ptr<const Hdf5Reader>);

  const PackedHeader& header() const { return header_; }
  const Hdf5Reader& file() const { return *file_; }
  /// The model, for evaluation: its linear layers hold the codes and unpack them anew in each pass, one layer
  /// at a time. At no time is more of it in f32 than what the file holds in f32. Throws Error(data) naming
  /// the first thing that is missing, does not fit the recipe's model, or is not part of it.
  std::unique_ptr<Model> load(Backend&) const;

  /// What the file spends its bytes on.
  struct Row {
    std::string name;      ///< of a layer whose weight is packed, or of a parameter
    std::string format;    ///< "mxfp4", "f32"
    std::string rotation;  ///< "hadamard=16 signs=run", or empty
    std::vector<std::int64_t> dims;
    std::int64_t bytes = 0;
    bool packed = false;
  };
  /// Packed ones first.
  std::vector<Row> rows() const;
  /// The codes of a layer.
  MxTensor codes_of(const std::string& layer) const;

 private:
  std::shared_ptr<const Hdf5Reader> file_;
  PackedHeader header_;
};

}  // namespace mxtape
