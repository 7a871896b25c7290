#include "kernels/cpu/pairs/pair_softmax.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

constexpr int tile = PairForward::tile;

// Rows of scores that are worked on together, so that few instructions wait for the one before.
constexpr int rows_at_once = 4;

/// s = 2^(factor (s - top)) for four queries from `query` on, 0 for keys that are not seen, where top is a
/// row's largest number; and the sums of rows. All four see the first `full` panels of keys, and none sees
/// more than `panels`.
MXT_LANES void powers(const PairHead& h, std::int64_t query, float* s, std::int64_t stride, std::int64_t full,
                      std::int64_t panels, float factor, float* tops, float* totals) {
  f32x16 top[rows_at_once], sum[rows_at_once];
  const auto at = [&](int r, std::int64_t i) { return s + r * stride + i * lanes; };
  const auto kept = [&](int r, std::int64_t i) { return first_lanes(h.seen(query + r) - i * lanes); };
  for (int r = 0; r < rows_at_once; ++r) top[r] = all(*at(r, 0)), sum[r] = f32x16{};
  for (std::int64_t i = 0; i < full; ++i)
    for (int r = 0; r < rows_at_once; ++r) top[r] = max(top[r], load(at(r, i)));
  for (std::int64_t i = full; i < panels; ++i)
    for (int r = 0; r < rows_at_once; ++r)
      top[r] = _mm512_mask_max_ps(top[r], kept(r, i), load(at(r, i)), top[r]);
  for (int r = 0; r < rows_at_once; ++r) tops[r] = largest_lane(top[r]), top[r] = all(tops[r]);
  for (std::int64_t i = 0; i < full; ++i)
    for (int r = 0; r < rows_at_once; ++r) {
      const f32x16 e = power_of_two((load(at(r, i)) - top[r]) * factor);
      store(at(r, i), e), sum[r] += e;
    }
  for (std::int64_t i = full; i < panels; ++i)
    for (int r = 0; r < rows_at_once; ++r) {
      const f32x16 e = _mm512_maskz_mov_ps(kept(r, i), power_of_two((load(at(r, i)) - top[r]) * factor));
      store(at(r, i), e), sum[r] += e;
    }
  for (int r = 0; r < rows_at_once; ++r) totals[r] = sum_of_lanes(sum[r]);
}

/// s = scores of `rows` queries, p = their softmax, rounded; both 0 for keys that are not seen.
MXT_LANES void softmax(const PairForward& f, std::int64_t query, std::int64_t rows, std::int64_t panels,
                       std::int64_t stride, Fetcher& fetcher) {
  constexpr float log2_e = 0x1.715476p+0f;
  alignas(64) float tops[tile] = {}, totals[tile], factors[tile];
  store(totals, all(1));
  for (std::int64_t r = 0; r < rows; r += rows_at_once) {
    fetcher.step();
    powers(f.head, query + r, f.s + r * stride, stride, f.head.seen(query) / lanes, panels,
           f.head.scale * log2_e, tops + r, totals + r);
  }
  store(factors, 1.0f / load(totals));
  _mm512_mask_storeu_ps(f.lse + query, first_lanes(rows), load(tops) * f.head.scale + log_of(load(totals)));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const s = f.s + r * stride;
    Word* const p = f.p + r * stride / 2;
    std::int64_t i = 0;
    for (; i + 2 * lanes <= panels * lanes; i += 2 * lanes)
      store_as(p + i / 2, joined(load(s + i) * factors[r], load(s + i + lanes) * factors[r]));
    if (i < panels * lanes) store_as(p + i / 2, _mm512_cvtneps_pbh(load(s + i) * factors[r]));
  }
}

}  // namespace

void forward(const PairForward& job) {
  const PairForward f = job;  // which no store can change
  const PairHead& h = f.head;
  const PairSource q{nullptr, 0, h.queries, h.width}, k{nullptr, 0, h.keys, h.width};
  const std::int64_t stride = (h.keys + lanes - 1) / lanes * lanes;
  Fetcher fetcher(f.ahead);
  for (std::int64_t query = 0; query < h.queries; query += tile) {
    const std::int64_t rows = h.queries - query < tile ? h.queries - query : tile;
    const std::int64_t panels = (h.seen(query + rows - 1) + lanes - 1) / lanes;
    for_panels(
        panels, [&]<int n>(std::int64_t p) __attribute__((always_inline)) {
          for (std::int64_t r = 0; r < rows; r += block_lines) {
            fetcher.step();
            multiply_block<n>({f.s + r * stride + p * lanes, stride, block_lines, n * lanes, false},
                              Rows{f.q + (query + r) * q.row_words(), q.row_words()},
                              f.k + p * k.panel_of_rows(), k.panel_of_rows(), (h.width + 1) / 2, false);
          }
        });
    softmax(f, query, rows, panels, stride, fetcher);
    for_panels((h.width + lanes - 1) / lanes, [&]<int n>(std::int64_t p) __attribute__((always_inline)) {
      for (std::int64_t r = 0; r < rows; r += block_lines) {
        fetcher.step();
        multiply_block<n>(
            {f.o + (query + r) * f.o_stride + p * lanes, f.o_stride, rows - r, h.width - p * lanes},
            Rows{f.p + r * stride / 2, stride / 2}, f.v + p * k.panel_of_columns(), k.panel_of_columns(),
            panels * lanes / 2, false);
      }
    });
  }
}

}  // namespace mxtape::cpu::MXT_TIER
