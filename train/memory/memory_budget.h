#pragma once
#include <algorithm>
#include <string>

#include "data/hdf5/token_file.h"
#include "kernels/backend.h"
#include "train/memory/memory_plan.h"

namespace mxtape {

/// What a device has for a run, and what of it is not the model's.
struct MemoryBudget {
  std::int64_t capacity = 0;   ///< for tensors: Backend::capacity_bytes
  std::int64_t workspace = 0;  ///< tensors of the device's own
  std::int64_t tokens = 0;     ///< of the data, if they are in the same memory
  bool host = false;           ///< checkpoints are built in the same memory, too

  /// `fresh` is a backend on which nothing was done yet.
  static MemoryBudget of(const Recipe&, const Backend& fresh, const TokenFile&, int sharing = 1);

  /// What saving takes beyond the most that training and validation do.
  std::int64_t saving(const MemoryPlan& plan) const {
    return host ? std::max<std::int64_t>(plan.save_peak() - plan.peak, 0) : 0;
  }
  /// What measuring takes, where it is in the same memory. The largest counts on top of the peak: a step that
  /// is measured keeps all that a step keeps.
  std::int64_t telemetry(const MemoryPlan& plan) const { return host ? plan.telemetry : 0; }
  std::int64_t needed(const MemoryPlan& plan) const {
    return plan.peak + std::max(saving(plan), telemetry(plan)) + workspace + tokens;
  }
  bool holds(const MemoryPlan& plan) const { return needed(plan) <= capacity; }
};

/// "about 1.21 GiB of the device's 138.9 GiB:", and on a line below "weights ..., activations ...".
std::string memory_text(const MemoryPlan&, const MemoryBudget&);

/// Throws Error(resource) if the run does not fit, with what would, the cheapest first: the largest
/// micro-batch, for the same step, then packed copies, recompute and own attention, then a context of half
/// the length, a quarter ... Each is planned, not guessed.
void require_memory(const Recipe&, const MemoryPlan&, const MemoryBudget&);

}  // namespace mxtape
