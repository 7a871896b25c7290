#include "kernels/cpu/pairs/fetch_ahead.h"
#include "kernels/cpu/pairs/pair_softmax.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

constexpr std::int64_t most_keys = PairBackward::keys_at_once, most_queries = PairBackward::queries_at_once;
constexpr std::int64_t words_of_query = most_keys / 2;  // in ds_rows

// Queries and keys go in groups of as many as multiply() takes lines. Scores and dP of one group of keys
// against so many queries are in the first cache.
constexpr std::int64_t group = line_granule, queries_of_scores = 96;

/// A head's copies; and P and dS of a block, with a line for each key and, of dS, for each query.
struct Copies {
  Word *k_rows, *k_columns, *v_rows, *q_lines, *q_columns, *do_lines, *do_columns, *p, *ds, *ds_rows;
};
MXT_LANES Copies copies_of(const PairBackward& b) {
  Word* next = b.scratch;
  const auto take = [&](std::int64_t words) { return (next += words) - words; };
  const std::int64_t k = b.k.in_rows(), q = b.q.in_rows(), q_turned = b.q.in_columns();
  const std::int64_t of_block = most_keys * b.words_of_key();
  return {take(k), take(b.k.in_columns()), take(k),        take(q),        take(q_turned),
          take(q), take(q_turned),         take(of_block), take(of_block), take(of_block)};
}

/// Queries from `query` on against keys from `key` on, multiples of a group and of 64.
struct Block {
  std::int64_t query, queries, key, keys;
  std::int64_t end() const { return query + (queries + group - 1) / group * group; }
};

/// The first query of the group whose last one sees a key.
MXT_LANES std::int64_t first_query(const PairHead& h, std::int64_t key) {
  return h.causal && key > h.first ? (key - h.first) / group * group : 0;
}

/// P and dS of a group of keys, and of 96 queries or of those that are left; a line of scores is a key's.
MXT_LANES void score_gradients(const PairBackward& b, const Copies& c, const Block& at, std::int64_t k,
                               std::int64_t query, FetchAhead& ahead) {
  constexpr std::int64_t stride = queries_of_scores;
  alignas(64) float scores[group * stride], dp[group * stride];
  const std::int64_t left = at.end() - query, count = left < stride ? left : stride, key = at.key + k;
  const std::int64_t line = key * b.k.row_words(), panel = query / lanes * b.q.panel_of_rows();
  multiply({scores, stride, group, count, false}, {c.k_rows + line, b.k.row_words()},
           {c.q_lines + panel, b.q.panel_of_rows()}, (b.width + 1) / 2, false);
  multiply({dp, stride, group, count, false}, {c.v_rows + line, b.k.row_words()},
           {c.do_lines + panel, b.q.panel_of_rows()}, (b.width + 1) / 2, false);
  constexpr float log2_e = 0x1.715476p+0f;
  const float to_exponents = b.scale * log2_e;
  for (std::int64_t q = 0; q < count; q += lanes) {
    const std::int64_t row = query + q, line_words = b.words_of_key();
    const i32x16 there = first_lanes(b.queries - row);
    const bool seen = row + lanes <= b.queries && key + group <= b.keys &&
                      (!b.causal || key + group - 1 - b.first <= row);  // all of these
    const f32x16 lse = load_there(b.lse + row, b.queries - row) * log2_e;
    const f32x16 delta = load_there(b.delta + row, b.queries - row);
    ahead.step();
    u32x16 pairs[lanes];
    for (int i = group / 2; i < lanes; ++i) pairs[i] = u32x16{};
    for (int i = 0; i < group; i += 2) {
      f32x16 ds[2];
      for (int j = 0; j < 2; ++j) {
        const i32x16 unseen = first_lanes(b.causal ? key + i + j - b.first - row : 0);
        const i32x16 kept = key + i + j < b.keys ? there & ~unseen : i32x16{};
        const std::int64_t from = (i + j) * stride + q, to = (k + i + j) * line_words + (row - at.query) / 2;
        const f32x16 x = load(scores + from) * to_exponents - lse;
        // No probability is above 1, whatever rounding makes of large scores.
        f32x16 p = power_of_two(min(f32x16{}, x));
        if (!seen) p = select(kept, p, f32x16{});
        ds[j] = p * (load(dp + from) - delta) * b.scale;
        if (!seen) ds[j] = select(kept, ds[j], f32x16{});
        store_pairs(c.p + to, p), store_pairs(c.ds + to, ds[j]);
      }
      pairs[i / 2] = pairs_of(ds[0], ds[1]);
    }
    transpose(pairs);
    for (int i = 0; i < lanes; ++i)
      if (Word* const to = c.ds_rows + (row - at.query + i) * words_of_query + k / 2; group == 2 * lanes)
        store_as(to, pairs[i]);
      else
        store_lower(to, pairs[i]);
  }
}

/// A block's share of dV, dK and dQ. Keys and queries that were in a block before have sums to go on with.
MXT_LANES void sum_gradients(const PairBackward& b, const Copies& c, const Block& at) {
  for (std::int64_t k = 0; k < at.keys; k += group) {  // sums along queries
    const std::int64_t first = first_query(b, at.key + k), from = first > at.query ? first : at.query;
    if (from >= at.end()) continue;
    const std::int64_t words = k * b.words_of_key() + (from - at.query) / 2, to = (at.key + k) * b.k_stride;
    const std::int64_t steps = (at.end() - from) / 2, rows = at.keys - k < group ? at.keys - k : group;
    const bool add = b.same_keys || first < at.query;
    multiply({b.dv + to, b.k_stride, rows, b.width}, {c.p + words, b.words_of_key()},
             {c.do_columns + from / 2 * lanes, b.q.panel_of_columns()}, steps, add);
    multiply({b.dk + to, b.k_stride, rows, b.width}, {c.ds + words, b.words_of_key()},
             {c.q_columns + from / 2 * lanes, b.q.panel_of_columns()}, steps, add);
  }
  for (std::int64_t q = at.query; q < at.query + at.queries; q += group) {  // sums along keys
    std::int64_t seen = 0;
    while (seen < at.keys && first_query(b, at.key + seen) <= q) seen += group;
    const std::int64_t left = at.query + at.queries - q;
    multiply({b.dq + q * b.q_stride, b.q_stride, left < group ? left : group, b.width},
             {c.ds_rows + (q - at.query) * words_of_query, words_of_query},
             {c.k_columns + at.key / 2 * lanes, b.k.panel_of_columns()}, seen / 2, at.key > 0);
  }
}

}  // namespace

void backward(const PairBackward& job) {
  const PairBackward b = job;  // which no store can change
  const Copies c = copies_of(b);
  if (!b.same_keys) pack(b.k, {.rows = c.k_rows, .columns = c.k_columns}), pack(b.v, {.rows = c.v_rows});
  pack(b.q, {.lines = c.q_lines, .columns = c.q_columns});
  pack(b.d_o, {.lines = c.do_lines, .columns = c.do_columns});
  [[maybe_unused]] const TileShapes shapes;
  FetchAhead ahead(b, (b.queries + lanes - 1) / lanes * ((b.keys + group - 1) / group));
  for (std::int64_t key = 0; key < b.keys; key += most_keys)
    for (std::int64_t query = first_query(b, key); query < b.queries; query += most_queries) {
      const Block at{query, b.queries - query < most_queries ? b.queries - query : most_queries, key,
                     b.keys - key < most_keys ? b.keys - key : most_keys};
      for (std::int64_t k = 0; k < at.keys; k += group) {
        const std::int64_t first = first_query(b, key + k);
        for (std::int64_t q = first > query ? first : query; q < at.end(); q += queries_of_scores)
          score_gradients(b, c, at, k, q, ahead);
      }
      sum_gradients(b, c, at);
    }
}

}  // namespace mxtape::cpu::MXT_TIER
