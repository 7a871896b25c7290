#pragma once
// For *_loops.cpp only: how a loop runs over an array whose length is no multiple of sixteen.
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {

// Sixteen lanes at p, or the first n of them: a loop body reads and writes through one of these, so that the
// same body serves full vectors and the tail. keep(v) puts `other`, 0 unless given, into the missing lanes.
struct Full {
  static constexpr int ahead = 256;  // numbers: processors (a Xeon) foresee too little of several streams
  [[gnu::always_inline]] static f32x16 load(const float* p) {
    return __builtin_prefetch(p + ahead), MXT_TIER::load(p);
  }
  [[gnu::always_inline]] static void store(float* p, const f32x16& v) {
    __builtin_prefetch(p + ahead, 1), MXT_TIER::store(p, v);
  }
  [[gnu::always_inline]] static void store_upper(std::uint16_t* p, const u32x16& v) {
    MXT_TIER::store_upper(p, v);
  }
  [[gnu::always_inline]] static f32x16 keep(const f32x16& v, const f32x16& = f32x16{}) { return v; }
};
/// The memory of all sixteen lanes may be read and written; the missing ones read and are written as 0.
struct Masked {
  std::int64_t n;
  [[gnu::always_inline]] f32x16 load(const float* p) const { return keep(MXT_TIER::load(p)); }
  [[gnu::always_inline]] void store(float* p, const f32x16& v) const { MXT_TIER::store(p, keep(v)); }
  [[gnu::always_inline]] f32x16 keep(const f32x16& v, const f32x16& other = f32x16{}) const {
    return select(lane_numbers() < all_ints(std::int32_t(n)), v, other);
  }
};
/// Only the first n lanes' memory is touched; the missing ones read as 0.
struct First {
  std::int64_t n;
  [[gnu::always_inline]] f32x16 load(const float* p) const { return load_first(p, n); }
  [[gnu::always_inline]] void store(float* p, const f32x16& v) const { store_first(p, v, n); }
  [[gnu::always_inline]] void store_upper(std::uint16_t* p, const u32x16& v) const {
    std::uint16_t all_lanes[lanes];
    MXT_TIER::store_upper(all_lanes, v);
    std::memcpy(p, all_lanes, std::size_t(n) * sizeof *p);
  }
  [[gnu::always_inline]] f32x16 keep(const f32x16& v, const f32x16& other = f32x16{}) const {
    return Masked{n}.keep(v, other);
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
