#pragma once
#include <span>
#include <vector>

#include "dist/communicator.h"
#include "kernels/backend.h"
#include "nn/config.h"
#include "train/devices/units.h"

namespace mxtape {

struct Parameter;

/// How a strand's gradient of each parameter is rounded before strands are added (slot sum.dw), in the order
/// of the parameters; vectors stay f32.
std::vector<Quantizer> sum_formats(std::span<Parameter* const>, const PrecisionPlan&);
/// Bytes of a strand's gradient as it travels.
std::int64_t bytes_of_gradient(const Shape&, const Quantizer&);

/// A strand's gradients of a bucket, or of a shard of one, as they travel: codes and scales of what has a
/// format, f32 of what has none. What a gradient is worth is decode(encode(g)), on the device that computed
/// it too; so no bit depends on who adds.
class PackedGradients {
 public:
  /// The parameters' shapes and formats, which must live as long as this.
  PackedGradients(std::span<const Shape> shapes, std::span<const Quantizer> formats)
      : shapes_(shapes), formats_(formats) {}

  /// True if some of the bucket's gradients have a format.
  bool concerns(const Bucket&) const;
  /// Room for what pack() makes of a bucket.
  void make_room(Backend&, const Bucket&);
  /// Rounds all gradients of a bucket. Draws are numbered by parameter and element; `strand`: the key of its
  /// first pass.
  void pack(Backend&, const Bucket&, const Tensor& gradients, const DrawKey& strand);
  /// Room for a shard of what another device has packed.
  void make_room(Backend&, const Shard&);
  /// A shard's part of what was packed.
  PackedGradients part(const Shard&) const;

  /// What is sent or received, in an order that the shard decides.
  void add_parts(std::vector<Part>&, int rank) const;
  /// The shard's gradients, f32; what lies between parameters is left as it is.
  void unpack(Backend&, const Shard&, const Tensor& gradients) const;

 private:
  /// A parameter's gradient, or consecutive rows of it.
  struct Piece {
    std::size_t parameter;
    Rounded gradient;  ///< stored, or values where it has no format
  };
  Rounded wanted_of(std::size_t parameter) const;
  bool is_packed(std::size_t parameter) const { return !formats_[parameter].is_identity(); }

  std::span<const Shape> shapes_;
  std::span<const Quantizer> formats_;
  std::vector<Piece> pieces_;
};

}  // namespace mxtape
