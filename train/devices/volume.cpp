#include "train/devices/volume.h"

#include <algorithm>

#include "kernels/observers/dry_backend.h"
#include "train/devices/packed_gradients.h"

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

Messages gradient_messages(std::span<const Bucket> buckets, std::span<const std::vector<Shard>> shards,
                           std::span<const Shape> shapes, std::span<const Quantizer> formats) {
  DryBackend device;
  Messages all;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    auto& of_bucket = all.emplace_back();
    const bool rounded = PackedGradients(shapes, formats).concerns(buckets[b]);
    for (const Shard& shard : shards[b]) {
      auto& messages = of_bucket.emplace_back();
      if (rounded) {
        PackedGradients packed(shapes, formats);
        packed.make_room(device, shard);
        std::vector<Part> parts;
        packed.add_parts(parts, 0);
        for (const Part& part : parts) messages.push_back(part.data.bytes());
      } else if (shard.count > 0) {
        messages.push_back(size_of(DType::f32) * shard.count);
      }
    }
  }
  return all;
}

Messages weight_messages(std::span<const Bucket> buckets, std::span<const std::vector<Shard>> shards,
                         const CopiesThatTravel& copies) {
  DryBackend device;
  Messages all;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const WeightsOnTheirWay weights(device, buckets[b], device.empty({buckets[b].count}), copies);
    auto& of_bucket = all.emplace_back();
    for (const Shard& shard : shards[b]) {
      auto& messages = of_bucket.emplace_back();
      for (const Tensor& part : weights.parts(shard)) messages.push_back(part.bytes());
    }
  }
  return all;
}

ExchangeVolume exchange_volume(std::span<const std::vector<Shard>> shards, const Messages& gradients,
                               const Messages& weights, std::int64_t strands, int rank) {
  constexpr std::int64_t f64 = 8;
  ExchangeVolume volume;
  for (std::size_t b = 0; b < shards.size(); ++b) {
    const auto& bucket = shards[b];
    const auto devices = std::int64_t(bucket.size());
    const std::int64_t own_strands = (strands - rank + devices - 1) / devices;
    const auto own = std::size_t(rank);
    for (std::size_t to = 0; to < bucket.size(); ++to) {
      if (to == own) continue;
      for (const std::int64_t bytes : gradients[b][to]) count_sent(volume.gradients, bytes, own_strands);
      for (const std::int64_t bytes : weights[b][to]) volume.values.received += bytes;
      for (const Piece& piece : bucket[to].pieces) volume.squares.received += f64 * piece.units;
    }
    for (const std::int64_t bytes : gradients[b][own])
      volume.gradients.received += bytes * (strands - own_strands);
    for (const std::int64_t bytes : weights[b][own]) count_sent(volume.values, bytes, devices - 1);
    for (const Piece& piece : bucket[own].pieces) count_sent(volume.squares, f64 * piece.units, devices - 1);
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
