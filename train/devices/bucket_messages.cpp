#include "train/devices/bucket_messages.h"

#include <utility>

namespace mxtape {

BucketMessages::BucketMessages(const Of& of)
    : of_(of), rounded_(PackedGradients(of.shapes, of.formats).concerns(of.bucket)) {}

void BucketMessages::make_room(Backend& backend) {
  if (room_) return;
  const PackedGradients none(of_.shapes, of_.formats);
  room_.emplace(Room{.packed = none});
  room_->inbox.resize(of_.shards.size());
  room_->packed_inbox.assign(of_.shards.size(), none);
  if (rounded_) room_->packed.make_room(backend, of_.bucket);
  for (std::size_t rank = 0; rank < of_.shards.size() && mine().count > 0; ++rank) {
    if (rank == of_.rank) continue;
    if (rounded_)
      room_->packed_inbox[rank].make_room(backend, mine());
    else
      room_->inbox[rank] = backend.empty({mine().count});
  }
}

void BucketMessages::pack(Backend& backend, const DrawKey& strand) {
  if (rounded_) room_->packed.pack(backend, of_.bucket, of_.gradients, strand);
}

void BucketMessages::add_parts(int busy, std::vector<Part>& send, std::vector<Part>& receive) const {
  for (std::size_t rank = 0; rank < of_.shards.size(); ++rank) {
    if (rank == of_.rank) continue;
    const Shard& shard = of_.shards[rank];
    const bool sends = of_.rank < std::size_t(busy), receives = rank < std::size_t(busy);
    if (sends && rounded_) room_->packed.part(shard).add_parts(send, int(rank));
    if (sends && !rounded_) add_part(send, int(rank), of_.gradients.part(shard.first, {shard.count}));
    if (receives && rounded_) room_->packed_inbox[rank].add_parts(receive, int(rank));
    if (receives && !rounded_) add_part(receive, int(rank), room_->inbox[rank]);
  }
}

std::vector<Tensor> BucketMessages::strands(Backend& backend, int busy) const {
  std::vector<Tensor> strands;
  for (std::size_t rank = 0; rank < std::size_t(busy) && mine().count > 0; ++rank) {
    const bool own = rank == of_.rank;
    Tensor strand = own ? of_.gradients.part(mine().first, {mine().count}) : room_->inbox[rank];
    if (rounded_ && !own) {
      strand = backend.empty({mine().count});
      backend.fill(strand, 0);  // what lies between parameters is added, too
    }
    if (rounded_)
      (own ? room_->packed.part(mine()) : room_->packed_inbox[rank]).unpack(backend, mine(), strand);
    strands.push_back(std::move(strand));
  }
  return strands;
}

}  // namespace mxtape
