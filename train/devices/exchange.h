#pragma once
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "dist/devices.h"
#include "nn/config.h"
#include "optim/adamw.h"
#include "recipes/recipe.h"
#include "train/devices/bucket_messages.h"
#include "train/devices/packed_weights.h"
#include "train/devices/units.h"

namespace mxtape {

/// The gradient of a step of several strands: where each strand leaves its own, their sum, and the update. On
/// N devices (docs/devices.md) strand s is computed by device s mod N, in round s / N, and each device sums,
/// squares and updates its own units, and has the moments of these alone.
class Exchange {
 public:
  /// From now on the parameters' gradients lie in buckets, whose memory stays; on several devices their
  /// values do, too. `devices`: null for one. ComputeConfig: how large buckets are, and whether their
  /// exchange begins while backward goes on.
  Exchange(Backend&, std::vector<Parameter*>, std::int64_t strands, Devices* devices,
           const ComputeConfig& = {});

  /// What this device updates, by parameter; empty on one device: everything.
  const std::vector<Range>& own() const { return own_; }
  std::int64_t rounds() const { return (strands_ + size_ - 1) / size_; }
  /// The strand that this device computes in a round; -1: none.
  std::int64_t strand_of(std::int64_t round) const;

  // --- a round, on all devices; rounds in order
  /// `own`: the first pass of this device's strand, if it has one. Returns what the last backward pass of the
  /// strand has to call (Tape::after_node); empty if nothing is done meanwhile.
  std::function<void(std::span<Parameter* const>)> begin_round(std::int64_t round, const PassKey& own);
  /// In the strand's repeated work, after its last backward pass: the next one overwrites the gradients.
  /// Throws Error(internal) if a parameter has none.
  void end_strand();
  /// How strands' gradients are rounded from now on, before they are added: PrecisionPlan::sums.
  void set_precision(const PrecisionPlan&);
  /// Adds the gradients of the round's strands, in their order.
  void add_round();
  /// After the last round: the gradient's squares by unit, the optimizer's step, the new values on all
  /// devices. Returns the norm [1]. On one device it repeats under `name`.
  Tensor update(AdamW&, const std::string& name);

  // --- new weights, on all devices (new_values.cpp)
  /// From now on new weights travel as their copies where that can be (packed_weights.h). Of what does, each
  /// device then has the new values of its own units alone. The others' are NaN until whoever reads them asks
  /// for gather_values(): nothing goes on with old ones.
  void gather_copies(std::vector<LinearWeight>);
  /// All values are on all devices, until the next update.
  void gather_values();
  bool has_all_values() const { return whole_; }
  /// What of a parameter is the same on all devices: its value or, if it has travelled so, its copies.
  std::vector<Tensor> replicated(std::size_t parameter) const;

  // --- checkpoints, on all devices
  /// Rank 0's values become everybody's; and these, which every device has room for.
  void share_values(std::span<const Tensor> others);
  /// A whole moment on rank 0, put together of what the devices have; elsewhere nothing is returned.
  Tensor gather(std::size_t parameter, const Tensor& own);
  /// The other way: each device gets its part of rank 0's `whole`.
  void scatter(std::size_t parameter, const Tensor& whole, const Tensor& own);

 private:
  /// The sum of this device's gradients, by parameter; their squares are in squares_.
  std::vector<Tensor> squared_gradients();
  void share_squares();
  void share_new_values();
  void renew_copies(AdamW&);
  void lose_others_values();
  void after_node(std::span<Parameter* const> complete);
  void pack(std::size_t bucket);
  void start(std::size_t bucket);
  void settle();
  /// parts(rank), of each rank, to all others.
  void share(const std::function<std::vector<Tensor>(int rank)>& parts);
  /// The parts of a parameter that ranks own, to rank 0's `whole` or from it.
  void exchange_parts(std::size_t parameter, const Tensor& whole, const Tensor& own, bool to_whole);
  void transfer(const std::vector<Part>& send, const std::vector<Part>& receive);

  Backend& backend_;
  std::vector<Parameter*> parameters_;
  std::int64_t strands_;
  Devices* devices_;
  int rank_, size_;
  bool overlaps_;
  std::vector<Shape> shapes_;       // by parameter
  std::vector<Quantizer> formats_;  // of strands' gradients, by parameter
  std::vector<Bucket> layout_;
  std::vector<std::vector<Shard>> shards_;       // by bucket, by rank
  std::vector<Tensor> buckets_, sums_, totals_;  // by bucket; sums and totals of this device's shard
  std::vector<Tensor> values_;                   // by bucket, on several devices
  Tensor squares_;                               // f64, by unit
  std::vector<Range> own_;
  std::vector<BucketMessages> messages_;  // by bucket
  Completion completion_;
  /// The one that is under way.
  struct Round {
    std::int64_t first = 0;   ///< strand
    int busy = 0;             ///< devices that have one: the first ones
    PassKey own{};            ///< the first pass of this device's
    std::size_t started = 0;  ///< buckets
  };
  Round round_;
  CopiesThatTravel copies_;
  bool whole_ = true;  // this device has all values
};

}  // namespace mxtape
