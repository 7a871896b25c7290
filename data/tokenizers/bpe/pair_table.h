#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace mxtape {

/// A map from two numbers of 31 bits to a Value: open addressing, at most half full.
template <class Value>
class PairTable {
 public:
  explicit PairTable(std::size_t count = 0)
      : entries_(std::bit_ceil(2 * count + 2)), mask_(entries_.size() - 1) {}

  /// False if the pair is there already; its value then stays.
  bool insert(std::int32_t first, std::int32_t second, const Value& value) {
    if (2 * (used_ + 1) > entries_.size()) {
      PairTable larger(entries_.size());
      for (const Entry& e : entries_)
        if (e.key != empty) larger.insert(std::int32_t(e.key >> 32), std::int32_t(e.key), e.value);
      *this = std::move(larger);
    }
    Entry& place = entries_[slot(key_of(first, second))];
    if (place.key != empty) return false;
    place = {key_of(first, second), value};
    ++used_;
    return true;
  }
  const Value* find(std::int32_t first, std::int32_t second) const {
    const Entry& place = entries_[slot(key_of(first, second))];
    return place.key == empty ? nullptr : &place.value;
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t(0);
  struct Entry {
    std::uint64_t key = empty;
    Value value{};
  };
  static std::uint64_t key_of(std::int32_t first, std::int32_t second) {
    return std::uint64_t(std::uint32_t(first)) << 32 | std::uint32_t(second);
  }
  /// Where the key is, or would be. Fibonacci hashing: middle bits of the product.
  std::size_t slot(std::uint64_t key) const {
    std::size_t i = std::size_t(key * 0x9e3779b97f4a7c15u >> 24) & mask_;
    while (entries_[i].key != key && entries_[i].key != empty) i = (i + 1) & mask_;
    return i;
  }

  std::vector<Entry> entries_;
  std::size_t mask_, used_ = 0;
};

}  // namespace mxtape
