#include "kernels/cpu/pairs/pair_softmax.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

constexpr std::int64_t most_keys = PairBackward::keys_at_once, most_queries = PairBackward::queries_at_once;
constexpr std::int64_t words_of_query = most_keys / 2;  // in ds_rows
/// Words of a panel of keys in p and ds_lines.
MXT_LANES std::int64_t panel_of_queries(const PairHead& h) {
  return PairBackward::scratch_words(h.queries) / (most_keys / lanes);
}

/// Queries from `query` on against keys from `key` on, multiples of 8 and of 64.
struct Block {
  std::int64_t query, queries, key, keys;
};

/// P and dS of eight queries and sixteen keys; scores and dP stay in registers.
MXT_LANES void score_gradients(const PairBackward& b, const Block& at, std::int64_t q, std::int64_t panel) {
  const PairHead& h = b.head;
  const PairSource rows{nullptr, 0, h.queries, h.width};
  const std::int64_t query = at.query + q, key = at.key + panel * lanes;
  const std::int64_t steps = (h.width + 1) / 2, lines = key / lanes * (steps * lanes);
  f32x16 s[block_lines][1] = {}, dp[block_lines][1] = {};
  add_dots<1>(s, Rows{b.q_rows + query * rows.row_words(), rows.row_words()}, b.k_lines + lines, 0, steps);
  add_dots<1>(dp, Rows{b.do_rows + query * rows.row_words(), rows.row_words()}, b.v_lines + lines, 0, steps);
  constexpr float log2_e = 0x1.715476p+0f;
  const float to_exponents = h.scale * log2_e;
  const std::int64_t line = panel * panel_of_queries(h) + q / 2 * lanes;
  Word* const ds_row = b.ds_rows + q * words_of_query + panel * lanes / 2;
  f32x16 p[block_lines], ds[block_lines];
  for (int i = 0; i < block_lines; ++i) {
    const std::int64_t row = query + i;
    const bool there = row < h.queries;
    const __mmask16 kept = there ? first_lanes(h.seen(row) - key) : __mmask16(0);
    const f32x16 x = s[i][0] * to_exponents - (there ? b.lse[row] * log2_e : 0);
    // No probability is above 1, whatever rounding makes of large scores.
    p[i] = _mm512_maskz_mov_ps(kept, power_of_two(_mm512_maskz_min_ps(0xffff, f32x16{}, x)));
    ds[i] = _mm512_maskz_mov_ps(kept, p[i] * (dp[i][0] - (there ? b.delta[row] : 0)) * h.scale);
  }
  for (int i = 0; i < block_lines; i += 2) {
    store_as(b.p + line + i / 2 * lanes, pairs_of(p[i], p[i + 1]));
    store_as(b.ds_lines + line + i / 2 * lanes, pairs_of(ds[i], ds[i + 1]));
    store_as(ds_row + i * words_of_query, _mm512_cvtneps_pbh(ds[i]));
    store_as(ds_row + (i + 1) * words_of_query, _mm512_cvtneps_pbh(ds[i + 1]));
  }
}

/// The first query, from a block of eight on, that sees a key.
MXT_LANES std::int64_t first_query(const PairHead& h, std::int64_t key) {
  const std::int64_t first = h.causal && key > h.first ? key - h.first : 0;
  return first / block_lines * block_lines;
}

/// Panels of a block's keys that eight queries see.
MXT_LANES std::int64_t seen_panels(const PairHead& h, const Block& at, std::int64_t q) {
  const std::int64_t last = at.query + q + block_lines < h.queries ? at.query + q + block_lines : h.queries;
  const std::int64_t seen = h.seen(last - 1) - at.key;
  return ((seen < at.keys ? seen : at.keys) + lanes - 1) / lanes;
}

/// A block's share of dV, dK and dQ. Keys and queries that were in a block before have sums to go on with.
MXT_LANES void multiply(const PairBackward& b, const Block& at, Fetcher& fetcher) {
  const PairHead& h = b.head;
  const PairSource queries{nullptr, 0, h.queries, h.width}, keys{nullptr, 0, h.keys, h.width};
  const std::int64_t d_panels = (h.width + lanes - 1) / lanes;
  const std::int64_t steps = (at.queries + block_lines - 1) / block_lines * block_lines / 2;
  // dV and dK: lines of keys, sums along queries.
  for_panels(
      d_panels, [&]<int n>(std::int64_t p) __attribute__((always_inline)) {
        for (std::int64_t k = 0; k < at.keys; k += block_lines) {
          const std::int64_t first = first_query(h, at.key + k) - at.query;
          const std::int64_t skip = (first > 0 ? first : 0) / 2;
          if (skip >= steps) continue;
          const std::int64_t words = k / lanes * panel_of_queries(h) + skip * lanes + k % lanes;
          const std::int64_t column = p * queries.panel_of_columns() + (at.query / 2 + skip) * lanes;
          const std::int64_t to = (at.key + k) * b.k_stride + p * lanes;
          const std::int64_t d_cols = h.width - p * lanes;
          const bool add = b.accumulate || first < 0;
          fetcher.step();
          multiply_block<n>({b.dv + to, b.k_stride, at.keys - k, d_cols}, Lines{b.p + words},
                            b.do_columns + column, queries.panel_of_columns(), steps - skip, add);
          multiply_block<n>({b.dk + to, b.k_stride, at.keys - k, d_cols}, Lines{b.ds_lines + words},
                            b.q_columns + column, queries.panel_of_columns(), steps - skip, add);
        }
      });
  // dQ: lines of queries, sums along keys.
  for_panels(
      d_panels, [&]<int n>(std::int64_t p) __attribute__((always_inline)) {
        for (std::int64_t q = 0; q < at.queries; q += block_lines)
          multiply_block<n>({b.dq + (at.query + q) * b.q_stride + p * lanes, b.q_stride, at.queries - q,
                             h.width - p * lanes},
                            Rows{b.ds_rows + q * words_of_query, words_of_query},
                            b.k_columns + p * keys.panel_of_columns() + at.key / 2 * lanes,
                            keys.panel_of_columns(), seen_panels(h, at, q) * lanes / 2, at.key > 0);
      });
}

}  // namespace

void backward(const PairBackward& job) {
  const PairBackward b = job;  // which no store can change
  const PairHead& h = b.head;
  Fetcher fetcher(b.ahead);
  for (std::int64_t key = 0; key < h.keys; key += most_keys)
    for (std::int64_t query = first_query(h, key); query < h.queries; query += most_queries) {
      const Block at{query, h.queries - query < most_queries ? h.queries - query : most_queries, key,
                     h.keys - key < most_keys ? h.keys - key : most_keys};
      for (std::int64_t q = 0; q < at.queries; q += block_lines) {
        const std::int64_t panels = seen_panels(h, at, q);
        for (std::int64_t panel = 0; panel < panels; ++panel)
          fetcher.step(), score_gradients(b, at, q, panel);
      }
      multiply(b, at, fetcher);
    }
}

}  // namespace mxtape::cpu::MXT_TIER
