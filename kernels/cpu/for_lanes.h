#pragma once
// For *_loops.cpp only: how a loop runs over an array whose length is no multiple of sixteen.
#include "kernels/cpu/simd.h"

namespace mxtape::cpu::MXT_TIER {

/// The first sixteen lanes at p, or the first n of them: a loop body reads and writes through one of these,
/// so that the same body serves full vectors and the tail. Missing lanes read as 0.
struct Full {
  [[gnu::always_inline]] static f32x16 load(const float* p) { return MXT_TIER::load(p); }
  [[gnu::always_inline]] static void store(float* p, const f32x16& v) { MXT_TIER::store(p, v); }
  [[gnu::always_inline]] static f32x16 keep(const f32x16& v) { return v; }
};
struct First {
  std::int64_t n;
  [[gnu::always_inline]] f32x16 load(const float* p) const { return load_first(p, n); }
  [[gnu::always_inline]] void store(float* p, const f32x16& v) const { store_first(p, v, n); }
  /// Zero in the missing lanes.
  [[gnu::always_inline]] f32x16 keep(const f32x16& v) const {
    float s[lanes];
    MXT_TIER::store(s, v);
    return load_first(s, n);
  }
};
/// body(i, Full or First) for i = 0, 16, 32 ... below n.
template <class Body>
MXT_LANES void for_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, Full{});
  if (i < n) body(i, First{n - i});
}
/// The sum over [0, n) of what body(i, Full or First) gives for 16 elements. Four running sums, so that
/// additions need not wait for each other: vector k of each 64 elements goes to sum k, the rest to sum 0.
template <class Body>
MXT_LANES float sum_lanes(std::int64_t n, const Body& body) {
  f32x16 a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a += body(i, Full{});
    b += body(i + lanes, Full{});
    c += body(i + 2 * lanes, Full{});
    d += body(i + 3 * lanes, Full{});
  }
  for (; i + lanes <= n; i += lanes) a += body(i, Full{});
  if (i < n) a += body(i, First{n - i});
  return sum((a + b) + (c + d));
}

}  // namespace mxtape::cpu::MXT_TIER
