#pragma once
#include <cstdint>

#include "kernels/cpu/loops/tier.h"

namespace mxtape::cpu {

/// A tile of a head's [T, keys] matrices: rows are queries, the first of them at position `first`, columns
/// the keys below `keys`. A query sees those of the first `length` that are not behind its position, or all
/// of them. Rows are `stride` numbers apart.
struct AttentionTile {
  std::int64_t first, rows, keys, stride;
  std::int64_t length = keys;
  bool causal = true;
  constexpr std::int64_t seen(std::int64_t row) const {
    return causal && first + row < length ? first + row + 1 : length;
  }
};

/// Everything works in place on tiles and writes 0 to the masked keys.
struct AttentionLoops {
  /// s = softmax(scale s) over the keys that a query sees; lse[i] = log of its sum of exponentials.
  void (*softmax)(float* s, float* lse, const AttentionTile&, float scale);
  /// s = e^(scale s - lse[i]): the same numbers up to rounding.
  void (*softmax_again)(float* s, const float* lse, const AttentionTile&, float scale);
  /// dp = scale p (dp - delta[i]): the gradient of the products Q K^T.
  void (*softmax_backward)(float* dp, const float* p, const float* delta, const AttentionTile&, float scale);
  /// sums[r] = the dot product of rows r of a and b.
  void (*row_dots)(float* sums, const float* a, std::int64_t a_stride, const float* b, std::int64_t b_stride,
                   std::int64_t rows, std::int64_t cols);
  /// s = 0 for the masked keys.
  void (*hide)(float* s, const AttentionTile&);
};

MXT_TIER_TABLE(AttentionLoops, attention_loops)

}  // namespace mxtape::cpu
