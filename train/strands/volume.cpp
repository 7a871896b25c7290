#include "train/strands/volume.h"

#include <algorithm>

namespace mxtape {
namespace {

void count_sent(Traffic& traffic, std::int64_t bytes, std::int64_t times) {
  if (bytes == 0 || times == 0) return;  // nothing is sent for no elements
  traffic.sent += times * bytes;
  traffic.messages += times;
  traffic.largest = std::max(traffic.largest, bytes);
}

}  // namespace

Traffic ExchangeVolume::all() const {
  Traffic sum;
  for (const Traffic* t : {&gradients, &squares, &values}) {
    sum.sent += t->sent;
    sum.received += t->received;
    sum.messages += t->messages;
    sum.largest = std::max(sum.largest, t->largest);
  }
  return sum;
}

ExchangeVolume exchange_volume(std::span<const std::vector<Shard>> shards, std::int64_t strands, int rank) {
  constexpr std::int64_t f32 = 4, f64 = 8;
  ExchangeVolume volume;
  for (const auto& bucket : shards) {
    const auto devices = std::int64_t(bucket.size());
    const std::int64_t own_strands = (strands - rank + devices - 1) / devices;
    const Shard& mine = bucket[std::size_t(rank)];
    for (std::size_t to = 0; to < bucket.size(); ++to) {
      if (to == std::size_t(rank)) continue;
      count_sent(volume.gradients, f32 * bucket[to].count, own_strands);
      volume.values.received += f32 * bucket[to].count;
      for (const Piece& piece : bucket[to].pieces) volume.squares.received += f64 * piece.units;
    }
    volume.gradients.received += f32 * mine.count * (strands - own_strands);
    count_sent(volume.values, f32 * mine.count, devices - 1);
    for (const Piece& piece : mine.pieces) count_sent(volume.squares, f64 * piece.units, devices - 1);
  }
  return volume;
}

std::int64_t elements_of_shards(std::span<const std::vector<Shard>> shards, int rank) {
  std::int64_t count = 0;
  for (const auto& bucket : shards) count += bucket[std::size_t(rank)].count;
  return count;
}

std::int64_t own_elements(std::span<const std::vector<Shard>> shards, int rank) {
  std::int64_t count = 0;
  for (const auto& bucket : shards)
    for (const Piece& piece : bucket[std::size_t(rank)].pieces) count += piece.count;
  return count;
}

}  // namespace mxtape
