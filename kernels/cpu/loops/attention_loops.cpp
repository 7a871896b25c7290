#include "kernels/cpu/loops/attention_loops.h"

#include "kernels/cpu/loops/for_lanes.h"
#include "kernels/cpu/loops/simd_math.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

/// body(i, Full, Masked or First) over the first `seen` numbers of a row with room for `stride`.
template <class Body>
MXT_LANES void for_seen(std::int64_t seen, std::int64_t stride, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes <= seen; i += lanes) body(i, Full{});
  if (i == seen) return;
  if (i + lanes <= stride)
    body(i, Masked{seen - i});
  else
    body(i, First{seen - i});
}

MXT_LANES void finish_row(float* row, std::int64_t seen, const AttentionTile& tile) {
  for (std::int64_t i = seen; i < tile.keys; ++i) row[i] = 0;
}

void softmax(float* s, float* lse, const AttentionTile& tile, float scale) {
  for (std::int64_t r = 0; r < tile.rows; ++r, s += tile.stride) {
    const std::int64_t seen = tile.seen(r);
    f32x16 highest = all(s[0]);
    for_seen(seen, tile.stride,
             [&](std::int64_t i, auto l) { highest = max(highest, l.keep(l.load(s + i), highest)); });
    const float top = largest(highest) * scale;
    f32x16 sums{};
    for_seen(seen, tile.stride, [&](std::int64_t i, auto l) {
      const f32x16 e = l.keep(exp(l.load(s + i) * scale - top));
      sums += e;
      l.store(s + i, e);
    });
    const float total = sum(sums);
    lse[r] = top + float(__builtin_log(double(total)));
    const float factor = 1 / total;
    for_seen(seen, tile.stride, [&](std::int64_t i, auto l) { l.store(s + i, l.load(s + i) * factor); });
    finish_row(s, seen, tile);
  }
}

void softmax_again(float* s, const float* lse, const AttentionTile& tile, float scale) {
  for (std::int64_t r = 0; r < tile.rows; ++r, s += tile.stride) {
    const std::int64_t seen = tile.seen(r);
    for_seen(seen, tile.stride,
             [&](std::int64_t i, auto l) { l.store(s + i, exp(l.load(s + i) * scale - lse[r])); });
    finish_row(s, seen, tile);
  }
}

void softmax_backward(float* dp, const float* p, const float* delta, const AttentionTile& tile, float scale) {
  for (std::int64_t r = 0; r < tile.rows; ++r, dp += tile.stride, p += tile.stride) {
    const std::int64_t seen = tile.seen(r);
    for_seen(seen, tile.stride, [&](std::int64_t i, auto l) {
      l.store(dp + i, l.load(p + i) * (l.load(dp + i) - delta[r]) * scale);
    });
    finish_row(dp, seen, tile);
  }
}

void row_dots(float* sums, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
              std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t ahead = 16, line = 16;  // rows; numbers of a line of the cache
  for (std::int64_t r = 0; r < rows; ++r, a += a_stride, b += b_stride) {
    for (std::int64_t i = 0; r + ahead < rows && i < cols; i += line)
      __builtin_prefetch(a + ahead * a_stride + i), __builtin_prefetch(b + ahead * b_stride + i);
    sums[r] = sum_lanes(cols, [&](std::int64_t i, auto l) { return l.load(a + i) * l.load(b + i); });
  }
}

void hide(float* s, const AttentionTile& tile) {
  for (std::int64_t r = 0; r < tile.rows; ++r, s += tile.stride) finish_row(s, tile.seen(r), tile);
}

}  // namespace

extern const AttentionLoops attention_loops{softmax, softmax_again, softmax_backward, row_dots, hide};

}  // namespace mxtape::cpu::MXT_TIER
