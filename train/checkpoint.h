#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "data/hdf5/hdf5.h"
#include "data/hdf5/token_file.h"
#include "optim/adamw.h"
#include "recipes/recipe.h"

namespace mxtape {

/// What a checkpoint says besides its tensors.
struct CheckpointHeader {
  std::int64_t step = 0;  ///< optimizer steps done
  Recipe recipe;  ///< resolved, the vocabulary filled in, without what changes no number (threads, folder)
  Tokenizer tokenizer;
  std::string data_hash;  ///< of the token file
  /// Where the run came from, and what was changed on the way: a JSON array (program/lineage.h), or empty.
  std::string lineage = "";
  std::string written_by = "";  ///< "mxtape 0.1.0"; filled in when it is read, empty in older files
};

/// The recipe as checkpoints hold it: equal runs in other folders or on other thread counts give equal bytes.
Recipe without_whereabouts(Recipe);

/// Writes parameters, both moments and the header as HDF5 with a seal (data/hdf5/seal.h):
/// docs/checkpoints.md. The file appears under its name whole or not at all. Throws Error(resource) if the
/// name is taken or the disk is full, Error(diverged) if a number is not finite: nothing is written then.
void write_checkpoint(const std::filesystem::path&, const CheckpointHeader&, Backend&,
                      std::span<Parameter* const>, const AdamW&);

/// A checkpoint that has passed its content hash.
class CheckpointFile {
 public:
  /// Throws Error(data): missing, altered, not a checkpoint, of another version, renamed to another step.
  explicit CheckpointFile(const std::filesystem::path&);

  const CheckpointHeader& header() const { return header_; }
  const Hdf5Reader& file() const { return file_; }
  /// Every parameter must be there in its shape, and nothing else. Throws Error(data) naming the first
  /// misfit.
  void read_parameters(Backend&, std::span<Parameter* const>) const;
  void read_optimizer(Backend&, std::span<Parameter* const>, AdamW&) const;

 private:
  void read_tensor(Backend&, const std::string& name, const Tensor&) const;

  Hdf5Reader file_;
  CheckpointHeader header_;
};

}  // namespace mxtape
