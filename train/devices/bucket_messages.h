#pragma once
#include <optional>
#include <span>
#include <vector>

#include "dist/communicator.h"
#include "train/devices/packed_gradients.h"
#include "train/devices/units.h"

namespace mxtape {

/// Nothing is sent for no elements.
inline void add_part(std::vector<Part>& parts, int rank, const Tensor& data) {
  if (data && data.count() > 0) parts.push_back({rank, data});
}

/// The gradients of a bucket on the way from a round's strands to the devices that add them: each device gets
/// its shard of them. Rounded ones are packed before they go (PackedGradients), also on one device.
class BucketMessages {
 public:
  /// What must live as long as this: the bucket, its shards by rank, all parameters' shapes and formats.
  struct Of {
    const Bucket& bucket;
    std::span<const Shard> shards;
    Tensor gradients;
    std::span<const Shape> shapes;
    std::span<const Quantizer> formats;
    std::size_t rank;
  };
  explicit BucketMessages(const Of&);

  /// Memory for what is packed here, and for what each of the others sends. It stays until give_up_room().
  void make_room(Backend&);
  void give_up_room() { room_.reset(); }
  /// Rounds the gradients of this device's strand, if they have formats. `strand`: the key of its first pass.
  void pack(Backend&, const DrawKey& strand);
  /// What the first `busy` devices, which have strands, send to the others.
  void add_parts(int busy, std::vector<Part>& send, std::vector<Part>& receive) const;
  /// Once all is there: the strands' gradients of this device's shard, f32, by rank. Their memory is this
  /// class's, the bucket's or their own. None if the shard is empty.
  std::vector<Tensor> strands(Backend&, int busy) const;

 private:
  struct Room {
    std::vector<Tensor> inbox{};  // by rank, f32
    PackedGradients packed;       // where gradients are rounded, and instead of the inbox:
    std::vector<PackedGradients> packed_inbox{};
  };
  const Shard& mine() const { return of_.shards[of_.rank]; }

  Of of_;
  bool rounded_;
  std::optional<Room> room_;
};

}  // namespace mxtape
