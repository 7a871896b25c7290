#include "data/tokenizers/bpe/merges.h"

#include <algorithm>
#include <queue>
#include <vector>

namespace mxtape {
namespace {

constexpr std::size_t most_to_scan = 64;

}  // namespace

std::size_t Merges::apply(std::int32_t* symbols, std::size_t count) const {
  return count <= most_to_scan ? apply_by_scan(symbols, count) : apply_by_heap(symbols, count);
}

std::size_t Merges::apply_by_scan(std::int32_t* symbols, std::size_t count) const {
  if (count < 2) return count;
  Result few[most_to_scan];
  std::vector<Result> many(count > most_to_scan ? count : 0);
  Result* const pairs = many.empty() ? few : many.data();  // pairs[i]: of symbols i and i + 1
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = find(symbols[i], symbols[i + 1]);
  while (true) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (count < 2 || pairs[best].rank == no_rank) return count;
    symbols[best] = pairs[best].symbol;
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    if (best + 2 < count) std::copy(pairs + best + 2, pairs + count - 1, pairs + best + 1);
    --count;
    if (best > 0) pairs[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) pairs[best] = find(symbols[best], symbols[best + 1]);
  }
}

std::size_t Merges::apply_by_heap(std::int32_t* symbols, std::size_t count) const {
  struct Link {
    std::size_t before, after;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    std::int32_t left, right;  // what the pair was when it was seen: another now means it is gone
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  constexpr std::int32_t gone = -1;
  std::vector<Link> links(count);
  std::vector<Candidate> seen;
  for (std::size_t i = 0; i < count; ++i) {
    links[i] = {i - 1, i + 1};
    if (i + 1 == count) break;
    if (const Result pair = find(symbols[i], symbols[i + 1]); pair.rank != no_rank)
      seen.push_back({pair.rank, i, symbols[i], symbols[i + 1]});
  }
  std::priority_queue<Candidate> heap({}, std::move(seen));
  const auto push = [&](std::size_t at) {
    const std::size_t next = links[at].after;
    if (const Result pair = find(symbols[at], symbols[next]); pair.rank != no_rank)
      heap.push({pair.rank, at, symbols[at], symbols[next]});
  };
  while (!heap.empty()) {
    const Candidate c = heap.top();
    heap.pop();
    const std::size_t next = links[c.at].after;
    if (next >= count || symbols[c.at] != c.left || symbols[next] != c.right) continue;
    symbols[c.at] = find(c.left, c.right).symbol;
    symbols[next] = gone;
    links[c.at].after = links[next].after;
    if (links[next].after < count) {
      links[links[next].after].before = c.at;
      push(c.at);
    }
    if (c.at > 0) push(links[c.at].before);
  }
  return std::size_t(std::remove(symbols, symbols + count, gone) - symbols);
}

}  // namespace mxtape
