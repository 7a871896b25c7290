#include "core/memory/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"

namespace mxtape {
namespace {

std::int64_t rounded_up(std::int64_t bytes) {
  return std::max<std::int64_t>((bytes + MemoryLayout::alignment - 1) / MemoryLayout::alignment, 1) *
         MemoryLayout::alignment;
}

/// The pieces placed so far, found by time: a tree over the births with the latest death of each subtree, as
/// a step has many thousand pieces and most of them meet few others.
class PlacedPieces {
 public:
  explicit PlacedPieces(std::span<const Lifetime> pieces) : pieces_(pieces) {
    while (leaves_ < pieces.size()) leaves_ *= 2;
    latest_death_.assign(2 * leaves_, -1);
  }

  void insert(std::size_t piece) {
    for (std::size_t node = leaves_ + piece; node > 0; node /= 2)
      latest_death_[node] = std::max(latest_death_[node], pieces_[piece].death);
  }

  /// Appends those that meet `piece`.
  void find(const Lifetime& piece, std::vector<std::size_t>& found) const {
    const auto end = std::ranges::lower_bound(pieces_, piece.death, {}, &Lifetime::birth);
    visit(1, 0, leaves_, std::size_t(end - pieces_.begin()), piece.birth, found);
  }

 private:
  /// The subtree of births [first, first + count): those before `end` that die after `time`.
  void visit(std::size_t node, std::size_t first, std::size_t count, std::size_t end, std::int64_t time,
             std::vector<std::size_t>& found) const {
    if (first >= end || latest_death_[node] <= time) return;
    if (count == 1) return found.push_back(first);
    visit(2 * node, first, count / 2, end, time, found);
    visit(2 * node + 1, first + count / 2, count / 2, end, time, found);
  }

  std::span<const Lifetime> pieces_;
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> latest_death_;
};

}  // namespace

MemoryLayout plan_layout(std::span<const Lifetime> pieces) {
  require(std::ranges::is_sorted(pieces, {}, &Lifetime::birth),
          "layout: the pieces are not in the order of their births");
  std::vector<std::size_t> by_size(pieces.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater(), [&](std::size_t i) { return pieces[i].bytes; });

  MemoryLayout layout;
  layout.offsets.resize(pieces.size());
  PlacedPieces placed(pieces);
  std::vector<std::size_t> neighbours;
  for (const std::size_t piece : by_size) {
    const std::int64_t size = rounded_up(pieces[piece].bytes);
    neighbours.clear();
    placed.find(pieces[piece], neighbours);
    std::ranges::sort(neighbours, {}, [&](std::size_t neighbour) { return layout.offsets[neighbour]; });
    std::int64_t best = -1, best_gap = 0, end = 0;
    for (const std::size_t neighbour : neighbours) {
      const std::int64_t gap = layout.offsets[neighbour] - end;
      if (gap >= size && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      end = std::max(end, layout.offsets[neighbour] + rounded_up(pieces[neighbour].bytes));
    }
    layout.offsets[piece] = best < 0 ? end : best;
    layout.bytes = std::max(layout.bytes, layout.offsets[piece] + size);
    placed.insert(piece);
  }
  return layout;
}

std::int64_t most_live_bytes(std::span<const Lifetime> pieces) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // time, bytes
  for (const Lifetime& piece : pieces) {
    changes.emplace_back(piece.birth, rounded_up(piece.bytes));
    if (piece.death != Lifetime::never) changes.emplace_back(piece.death, -rounded_up(piece.bytes));
  }
  std::sort(changes.begin(), changes.end());  // at the same time deaths, which are negative, come first
  std::int64_t live = 0, most = 0;
  for (const auto& [time, bytes] : changes) most = std::max(most, live += bytes);
  return most;
}

}  // namespace mxtape
