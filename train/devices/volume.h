#pragma once
#include <cstdint>
#include <span>

#include "formats/quantize.h"
#include "train/devices/packed_weights.h"
#include "train/devices/units.h"

namespace mxtape {

/// What a device sends to the others and gets from them.
struct Traffic {
  std::int64_t sent = 0, received = 0;  ///< [bytes]
  std::int64_t messages = 0;            ///< sent
  std::int64_t largest = 0;             ///< of those that it sends [bytes]
  std::int64_t bytes() const { return sent > received ? sent : received; }  ///< of the busier direction
};

/// Bytes of the messages in which a shard travels, by bucket and by rank of the shard.
using Messages = std::vector<std::vector<std::vector<std::int64_t>>>;
/// A strand's gradients. `shards`: each bucket's, by rank (cut()); `formats`: those of sum_formats().
Messages gradient_messages(std::span<const Bucket>, std::span<const std::vector<Shard>> shards,
                           std::span<const Shape>, std::span<const Quantizer> formats);
/// New weights.
Messages weight_messages(std::span<const Bucket>, std::span<const std::vector<Shard>> shards,
                         const CopiesThatTravel&);

/// Of one optimizer step (Exchange). What goes over the host plane (orders, losses: some hundred bytes a
/// device) comes on top, and so does what a network adds to a message.
struct ExchangeVolume {
  Traffic gradients;  ///< of all rounds
  Traffic squares;    ///< f64 sums, one a unit
  Traffic values;     ///< the new ones
  Traffic all() const;
};
ExchangeVolume exchange_volume(std::span<const std::vector<Shard>> shards, const Messages& gradients,
                               const Messages& weights, std::int64_t strands, int rank);

/// Elements that the device sums up: its shards, with what lies between parameters.
std::int64_t elements_of_shards(std::span<const std::vector<Shard>> shards, int rank);
/// Elements that it updates.
std::int64_t own_elements(std::span<const std::vector<Shard>> shards, int rank);

}  // namespace mxtape
