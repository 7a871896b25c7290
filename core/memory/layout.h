#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace mxtape {

/// A piece of memory that is wanted from event `birth` to event `death`, which is no longer its own.
struct Lifetime {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t bytes = 0;
  std::int64_t birth = 0;
  std::int64_t death = never;
};

/// Places in one block: pieces that are wanted at the same time share no byte.
struct MemoryLayout {
  std::vector<std::int64_t> offsets;  ///< multiples of `alignment`
  std::int64_t bytes = 0;             ///< of the block
  static constexpr std::int64_t alignment = 256;
};

/// Places pieces, given in the order of their births: the largest first, each in the smallest gap that the
/// placed ones it meets leave open and that holds it, else behind them (Pisarchyk & Lee 2020,
/// arXiv:2001.03288, "greedy by size"). Finding the least block is NP-hard; most_live_bytes() bounds it from
/// below.
MemoryLayout plan_layout(std::span<const Lifetime>);

/// The most bytes wanted at a time, each piece rounded up to the alignment.
std::int64_t most_live_bytes(std::span<const Lifetime>);

}  // namespace mxtape
