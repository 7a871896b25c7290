#include "kernels/cpu/pairs/fetch_ahead.h"
#include "kernels/cpu/pairs/pair_softmax.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

constexpr int tile = line_granule;  // queries at a time

// Rows of scores that are worked on together, so that few instructions wait for the one before.
constexpr int rows_at_once = 4;

/// s = 2^(factor (s - top)) for four queries from `query` on, 0 for keys that are not seen, where top is a
/// row's largest number; and the sums of rows. None sees more than `panels` of keys.
MXT_LANES void powers(const PairHead& h, std::int64_t query, float* s, std::int64_t stride,
                      std::int64_t panels, float factor, float* tops, float* totals) {
  f32x16 top[rows_at_once], total[rows_at_once] = {};
  const auto at = [&](int r, std::int64_t i) { return s + r * stride + i * lanes; };
  const std::int64_t seen_by_all = h.seen(query) / lanes;  // panels
  const auto where_seen = [&](int r, std::int64_t i, const f32x16& yes, const f32x16& no) {
    return i < seen_by_all ? yes : select(first_lanes(h.seen(query + r) - i * lanes), yes, no);
  };
  for (int r = 0; r < rows_at_once; ++r) top[r] = all(*at(r, 0));
  for (std::int64_t i = 0; i < panels; ++i)
    for (int r = 0; r < rows_at_once; ++r) top[r] = where_seen(r, i, max(load(at(r, i)), top[r]), top[r]);
  for (int r = 0; r < rows_at_once; ++r) tops[r] = largest(top[r]), top[r] = all(tops[r]);
  for (std::int64_t i = 0; i < panels; ++i)
    for (int r = 0; r < rows_at_once; ++r) {
      const f32x16 e = where_seen(r, i, power_of_two((load(at(r, i)) - top[r]) * factor), f32x16{});
      store(at(r, i), e), total[r] += e;
    }
  for (int r = 0; r < rows_at_once; ++r) totals[r] = sum(total[r]);
}

/// s = scores of `rows` queries, p = their softmax, rounded; both 0 for keys that are not seen.
MXT_LANES void softmax(const PairForward& f, float* scores, Word* of_p, std::int64_t query, std::int64_t rows,
                       std::int64_t panels, std::int64_t stride, FetchAhead& ahead) {
  constexpr float log2_e = 0x1.715476p+0f;
  alignas(64) float tops[tile] = {}, totals[tile], factors[tile];
  for (int r = 0; r < tile; r += lanes) store(totals + r, all(1));
  for (std::int64_t r = 0; r < rows; r += rows_at_once) {
    ahead.step();
    powers(f, query + r, scores + r * stride, stride, panels, f.scale * log2_e, tops + r, totals + r);
  }
  for (int r = 0; r < tile; r += lanes) {
    store(factors + r, 1.0f / load(totals + r));
    store_there(f.lse + query + r, load(tops + r) * f.scale + log_of(load(totals + r)), rows - r);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const s = scores + r * stride;
    Word* const p = of_p + r * stride / 2;
    for (std::int64_t i = 0; i < panels * lanes; i += 2 * lanes) {
      const bool two = i + lanes < panels * lanes;
      store_as(p + i / 2,
               joined(load(s + i) * factors[r], two ? load(s + i + lanes) * factors[r] : f32x16{}));
    }
  }
}

}  // namespace

void forward(const PairForward& job) {
  const PairForward f = job;  // which no store can change
  Word *const k_lines = f.scratch, *const v_columns = k_lines + f.k.in_rows();
  Word *const q_rows = v_columns + f.v.in_columns(), *const p = q_rows + f.q.in_rows();
  float* const s = reinterpret_cast<float*>(p + f.scores());
  if (!f.same_keys) pack(f.k, {.lines = k_lines}), pack(f.v, {.columns = v_columns});
  pack(f.q, {.rows = q_rows});
  const std::int64_t stride = PairSource::granules(f.keys) * PairSource::granule;
  [[maybe_unused]] const TileShapes shapes;
  FetchAhead ahead(f, f.queries / rows_at_once + 1);
  for (std::int64_t query = 0; query < f.queries; query += tile) {
    const std::int64_t rows = f.queries - query < tile ? f.queries - query : tile;
    const std::int64_t keys = (f.seen(query + rows - 1) + tile - 1) / tile * tile;
    multiply({s, stride, tile, keys, false}, {q_rows + query * f.q.row_words(), f.q.row_words()},
             {k_lines, f.k.panel_of_rows()}, (f.width + 1) / 2, false);
    softmax(f, s, p, query, rows, keys / lanes, stride, ahead);
    multiply({f.o + query * f.o_stride, f.o_stride, rows, f.width}, {p, stride / 2},
             {v_columns, f.v.panel_of_columns()}, keys / 2, false);
  }
}

}  // namespace mxtape::cpu::MXT_TIER
