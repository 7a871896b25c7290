#pragma once
#include <cstdint>
#include <limits>

#include "data/tokenizers/bpe/pair_table.h"

namespace mxtape {

/// The merges of a BPE vocabulary: (left symbol, right symbol) to rank and result. Symbols are not negative.
class Merges {
 public:
  static constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();
  struct Result {
    std::uint32_t rank = no_rank;  // smaller merges first
    std::int32_t symbol = -1;
  };

  explicit Merges(std::size_t count = 0) : table_(count) {}
  /// False if the pair has a result already.
  bool insert(std::int32_t left, std::int32_t right, Result result) {
    return table_.insert(left, right, result);
  }
  Result find(std::int32_t left, std::int32_t right) const {
    const Result* const found = table_.find(left, right);
    return found ? *found : Result{};
  }

  /// Merges the pair of the smallest rank, leftmost among equals, until no pair has one. Returns how many
  /// symbols are left at the front of [symbols, symbols + count). Scans up to 64 symbols, a heap above:
  /// n log n.
  std::size_t apply(std::int32_t* symbols, std::size_t count) const;
  std::size_t apply_by_scan(std::int32_t* symbols, std::size_t count) const;  ///< n^2
  std::size_t apply_by_heap(std::int32_t* symbols, std::size_t count) const;

 private:
  PairTable<Result> table_;
};

}  // namespace mxtape
