#pragma once
#include <string>
#include <vector>

#include "autograd/linear_operands.h"
#include "nn/model.h"
#include "train/devices/units.h"

namespace mxtape {

/// Why a copy of a matrix cannot be put together, to the last bit, from what the owners of strips of 32 rows
/// pack and send; empty if it can.
std::string obstacle_to_packing(const Rounded&);

/// Which parameters' new values travel as codes and scales of their copies (train.gather = copies).
class CopiesThatTravel {
 public:
  CopiesThatTravel() = default;
  /// All must live as long as this. No weights: everything travels as f32 values.
  CopiesThatTravel(std::vector<Parameter*> parameters, std::vector<LinearWeight> weights);

  /// Why the parameter travels as f32 values: a step reads these, or its copies cannot travel; empty if they
  /// do. Its copies must be at hand, as they are in a step (Model::make_weight_copies()).
  std::string reason_for_values(std::size_t parameter) const;
  /// Of one whose copies travel: of these, once.
  std::int64_t bytes_on_the_way(std::size_t parameter) const;
  bool travels(std::size_t parameter) const { return reason_for_values(parameter).empty(); }
  const Parameter& parameter(std::size_t i) const { return *parameters_[i]; }

 private:
  std::vector<Parameter*> parameters_;
  std::vector<LinearWeight> weights_;
  std::vector<std::size_t> weight_of_;  // parameter i's place in weights_; none: behind the last
};

/// The new weights of a bucket on their way: of each parameter its copies, or else its values. The owner of
/// rows makes what is sent of them with the draws of the whole matrix, and receives what it is worth like
/// everyone else.
class WeightsOnTheirWay {
 public:
  /// `values`: those of the bucket, f32. Takes room for all that is packed.
  WeightsOnTheirWay(Backend&, const Bucket&, const Tensor& values, const CopiesThatTravel&);

  /// Packs the rows that this device has the new values of.
  void pack(Backend&, const Shard& mine);
  /// What is sent of a shard, or received.
  std::vector<Tensor> parts(const Shard&) const;
  bool all_values() const { return copies_.empty(); }
  /// Writes the copies, when all shards are here: as they will be after the update is counted.
  void unpack(Backend&) const;

 private:
  struct Travelling {
    std::size_t parameter;
    Tensor value;
    Rounded copy;
    Rounded sent;  ///< stored, or the copy itself where that has no more bytes
  };
  static void add_copy(std::vector<Tensor>& parts, const Travelling&, const Piece&);

  Tensor values_;
  std::vector<Travelling> copies_;
};

}  // namespace mxtape
