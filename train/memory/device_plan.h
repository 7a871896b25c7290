#pragma once
#include <map>
#include <string>
#include <vector>

#include "recipes/recipe.h"
#include "train/devices/volume.h"

namespace mxtape {

/// With train.gather = copies: in what new weights travel from a step on, as long as its precision holds.
struct GatherPlan {
  std::int64_t start = 0;                                       ///< step
  std::int64_t as_copies = 0;                                   ///< parameters
  std::map<std::string, std::vector<std::string>> as_values{};  ///< the others' names, by reason
  std::int64_t bytes = 0, f32_bytes = 0;                        ///< all weights once: as they go, and as f32
};
/// One for each precision that the recipe has; none with train.gather = values. The vocabulary must be set.
std::vector<GatherPlan> gather_plans(const Recipe&);

/// What a run on several devices will need of each of them, and send between them. [bytes]
struct DevicePlan {
  int devices = 1;
  std::int64_t strands = 1, rounds = 1;
  /// The device that needs most. Rank 0 saves, and needs `saving` meanwhile where its memory is the host's.
  std::int64_t weights = 0, gradients = 0, moments = 0, weight_copies = 0, peak = 0, saving = 0;
  std::int64_t sums = 0;      ///< of strands
  std::int64_t messages = 0;  ///< with compute.overlap: gradients of others, and own ones that are rounded
  /// One optimizer step, of the device that moves most bytes in a direction, and of all together.
  ExchangeVolume busiest;
  std::int64_t sent_by_all = 0, messages_of_all = 0;
  std::vector<GatherPlan> gathers{};

  /// What backward, an exchange or validation takes for the time that it runs.
  std::int64_t rest() const { return peak - weights - gradients - moments - weight_copies - sums - messages; }
  /// The share of the time of strands in which a device has one.
  double busy() const { return double(strands) / (double(rounds) * devices); }
};

/// By a dry run of rank 0 (memory_plan.h), and by how parameters are cut. The recipe's vocabulary must be
/// set, and `devices` be at most train.strands.
DevicePlan device_plan(const Recipe&, int devices);

/// A kind of link between devices and what it moves in one direction at a time: an assumption, to be
/// compared with one's own.
struct Link {
  const char* name;
  double bytes_per_second;
};
/// NVLink as its ring all-reduce is reported (NVIDIA nccl-tests #212, less a fifth); networks at nine tenths
/// of their rate; PCIe 4 x16 with peer-to-peer access at two thirds of its.
inline constexpr Link assumed_links[] = {{"NVLink of an H100", 300e9},
                                         {"400 Gb/s a device", 45e9},
                                         {"PCIe 4 x16", 20e9},
                                         {"100 Gb/s a device", 11e9},
                                         {"10 Gb/s a device", 1.1e9}};

}  // namespace mxtape
