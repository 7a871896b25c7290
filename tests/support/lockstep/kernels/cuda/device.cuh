#pragma once
// kernels/cuda/device.cuh for the host: see lockstep.h. Found first by the include path.
#include <array>
#include <cmath>
#include <cstring>
#include <deque>

#include "core/bf16.h"
#include "core/error.h"
#include "tests/support/lockstep/lockstep.h"

namespace mxtape::cuda {

inline constexpr int warp_lanes = 32;
inline constexpr int threads_of_multiprocessor = 2048;

inline int lane_id() { return int(threadIdx.x) % warp_lanes; }
inline int warp_id() { return int(threadIdx.x) / warp_lanes; }
inline void block_sync() { host::block_barrier(); }
inline void warp_sync() { host::exchange("warp_sync", nullptr, 0); }

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(host::dynamic_shared_memory());
}

/// What each lane passed to exchange().
template <class T>
T of_lane(const unsigned char* all, int lane) {
  T value;
  std::memcpy(&value, all + std::size_t(lane) * host::exchange_stride, sizeof value);
  return value;
}

template <class T>
T warp_xor(T value, int mask) {
  static_assert(sizeof(T) == 4);
  return of_lane<T>(host::exchange("warp_xor", &value, sizeof value), lane_id() ^ mask);
}
template <class T>
T warp_from(T value, int lane) {
  static_assert(sizeof(T) == 4);
  return of_lane<T>(host::exchange("warp_from", &value, sizeof value), lane % warp_lanes);
}
inline unsigned warp_ballot(bool vote) {
  const unsigned char* const all = host::exchange("warp_ballot", &vote, sizeof vote);
  unsigned votes = 0;
  for (int lane = 0; lane < warp_lanes; ++lane) votes |= unsigned(of_lane<bool>(all, lane)) << lane;
  return votes;
}

inline std::uint32_t bf16_pair(float low, float high) {
  const auto narrow = [](float x) { return x != x ? 0x7fffu : std::uint32_t(to_bf16(x).bits); };
  return narrow(low) | narrow(high) << 16;
}
inline float low_of(std::uint32_t pair) { return float_of(pair << 16); }
inline float high_of(std::uint32_t pair) { return float_of(pair & 0xffff0000u); }

/// Makes a pair of what f says of the halves of pairs.
template <class F, class... Pairs>
std::uint32_t by_halves(const F& f, Pairs... pairs) {
  return bf16_pair(f(low_of(pairs)...), f(high_of(pairs)...));
}
/// a b + c of bf16, which bf16_pair() then rounds once: where f32 is short of it, its last bit is odd, so
/// that what is left cannot pass for a tie. The product has 16 bits, hence the error of the sum in f64 is
/// exact.
inline float fma_of_bf16(float a, float b, float c) {
  const double product = double(a) * double(b), sum = product + double(c), rest = sum - product;
  const double error = (product - (sum - rest)) + (double(c) - rest);
  const float near = float(sum);
  const double left = (sum - double(near)) + error;
  if (left == 0 || !std::isfinite(near) || (bits_of(near) & 1) != 0) return near;
  return std::nextafter(near, left > 0 ? HUGE_VALF : -HUGE_VALF);
}
inline std::uint32_t pair_fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return by_halves(fma_of_bf16, a, b, c);
}
inline std::uint32_t pair_max(std::uint32_t a, std::uint32_t b) {
  return by_halves([](float x, float y) { return x != x || x > y ? x : y; }, a, b);
}
inline std::uint32_t pair_min(std::uint32_t a, std::uint32_t b) {
  return by_halves([](float x, float y) { return x != x || x < y ? x : y; }, a, b);
}
inline std::uint32_t pair_with_signs(std::uint32_t magnitudes, std::uint32_t signs) {
  return magnitudes | (signs & 0x80008000u);
}
inline std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) { return (a & 0xffffu) | b << 16; }
inline std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) { return a >> 16 | (b & 0xffff0000u); }

inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? 0.0f : x; }
inline float exp2_fast(float x) { return flushed(std::exp2(x)); }
inline float reciprocal_fast(float x) { return flushed(1 / x); }

inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  struct Mine {
    std::uint32_t a[4], b[2];
  };
  const Mine mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const unsigned char* const all = host::exchange("mma_bf16", &mine, sizeof mine);
  const int g = lane_id() / 4, t = lane_id() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, col = 2 * t + i % 2;
    double sum = double(d[i]);
    for (int k = 0; k < 16; ++k) {
      const auto left = of_lane<Mine>(all, row % 8 * 4 + k % 8 / 2).a[k / 8 * 2 + row / 8];
      const auto right = of_lane<Mine>(all, col * 4 + k % 8 / 2).b[k / 8];
      sum += k % 2 ? double(high_of(left)) * double(high_of(right))
                   : double(low_of(left)) * double(low_of(right));
    }
    d[i] = float(sum);
  }
}

/// Rows of four 8x8 tiles, as the lanes name them.
void host_load_tiles(std::uint32_t (&r)[4], const void* row, bool transposed);
inline void warp_load_tiles(std::uint32_t (&r)[4], const void* row) { host_load_tiles(r, row, false); }
inline void warp_load_tiles_transposed(std::uint32_t (&r)[4], const void* row) {
  host_load_tiles(r, row, true);
}

inline void store_16(void* to, const uint4& v, bool inside = true) {
  if (!inside) return;
  require(reinterpret_cast<std::uintptr_t>(to) % 16 == 0, "lockstep: store_16 at an address not aligned");
  host::require_global("store_16", to);
  std::memcpy(to, &v, sizeof v);
}

// Copies are done when they are waited for, as late as a GPU might: what reads too early sees the old
// contents.
void host_async_copy_16(void* shared, const void* global, bool inside);
void host_async_commit();
void host_async_wait(int groups);
inline void async_copy_16(void* shared, const void* global, bool inside = true) {
  host_async_copy_16(shared, global, inside);
}
inline void async_commit() { host_async_commit(); }
template <int n>
void async_wait() {
  host_async_wait(n);
}

template <int lanes = warp_lanes>
inline float warp_sum(float x) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) x += warp_xor(x, mask);
  return x;
}
template <int lanes = warp_lanes>
inline float warp_max(float x) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    const float other = warp_xor(x, mask);
    x = other > x ? other : x;
  }
  return x;
}

}  // namespace mxtape::cuda
