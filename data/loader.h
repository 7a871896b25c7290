#pragma once
#include <cstdint>
#include <vector>

#include "core/random.h"
#include "data/hdf5/split.h"

namespace mxtape {

/// Inputs and next-token targets of a batch, i32 [B, T] each, in host memory; empty where the split is
/// unread.
struct Batch {
  std::vector<std::int32_t> inputs, targets;
  std::int64_t batch = 0, time = 0;
};

/// Random windows of a split. The position is arithmetic on (seed, step * batch + row): nothing to save, and
/// the same rows however a global batch is cut into passes or devices.
class Loader {
 public:
  /// Throws Error(data) if the split is shorter than time + 1 tokens.
  Loader(const Split&, std::int64_t batch, std::int64_t time, std::uint64_t seed);
  /// Batch of pass `step` (autograd/tape.h: PassKey); windows start at a uniform position.
  Batch at(std::uint32_t step) const;

 private:
  const Split* split_;
  std::int64_t batch_, time_;
  std::uint64_t seed_;
};

/// Consecutive windows that cover a split once, for evaluation: window i starts at i * time; the last ragged
/// one is left out.
class Windows {
 public:
  Windows(const Split&, std::int64_t time);
  std::int64_t count() const;
  /// Windows [first, first + n) as one batch.
  Batch at(std::int64_t first, std::int64_t n) const;

 private:
  const Split* split_;
  std::int64_t time_;
};

}  // namespace mxtape
