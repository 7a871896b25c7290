#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "optim/adamw.h"
#include "train/saved/header.h"

namespace mxtape {

inline constexpr std::int64_t checkpoint_layout = 1;  ///< the version of what lies where in the file

enum class Moment : std::uint8_t { m, v };
/// Asked for a parameter's whole moment, in the order of the parameters, each one's m before its v: where
/// devices share the moments, all of them take part.
using MomentSource = std::function<Tensor(std::size_t parameter, Moment)>;
/// The other way, in the same order.
using MomentSink = std::function<void(std::size_t parameter, Moment, const std::vector<float>&)>;

/// Writes parameters, both moments and the header as HDF5 with a seal (data/hdf5/seal.h):
/// docs/checkpoints.md. The file appears under its name whole or not at all. Throws Error(resource) if the
/// name is taken or the disk is full, Error(diverged) if a number is not finite: nothing is written then.
void write_checkpoint(const std::filesystem::path&, const CheckpointHeader&, Backend&,
                      std::span<Parameter* const>, const MomentSource&);

/// Writes a checkpoint that holds no moments: of a run before its first step, from its parameters. In memory
/// is the file, once, and what the tensors read. `progress` hears of numbers. Throws as write_checkpoint().
void write_weights(const std::filesystem::path&, const CheckpointHeader&, std::span<const TensorInParts>,
                   const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});

/// A checkpoint that has passed its content hash.
class CheckpointFile {
 public:
  /// Throws Error(data): missing, altered, not a checkpoint, of another version, renamed to another step.
  explicit CheckpointFile(const std::filesystem::path& path) : CheckpointFile(open_sealed(path)) {}
  explicit CheckpointFile(std::shared_ptr<const Hdf5Reader>);

  const CheckpointHeader& header() const { return header_; }
  const Hdf5Reader& file() const { return *file_; }
  /// Every parameter must be there in its shape, and nothing else. Throws Error(data) naming the first
  /// misfit.
  void read_parameters(Backend&, std::span<Parameter* const>) const;
  void read_optimizer(std::span<Parameter* const>, const MomentSink&) const;

 private:
  std::vector<float> read_tensor(const std::string& name, const Shape&) const;

  std::shared_ptr<const Hdf5Reader> file_;
  CheckpointHeader header_;
};

}  // namespace mxtape
