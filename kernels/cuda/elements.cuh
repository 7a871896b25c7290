#pragma once
#include <type_traits>

#include "core/bf16.h"
#include "core/error.h"
#include "core/tensor.h"
#include "kernels/cuda/device.cuh"

namespace mxtape::cuda {

/// An activation's element as f32, and back, rounded to nearest even.
__device__ inline float value_at(const float* x, std::int64_t i) { return x[i]; }
__device__ inline float value_at(const bf16* x, std::int64_t i) { return to_f32(x[i]); }
__device__ inline void store_at(float* y, std::int64_t i, float value) { y[i] = value; }
__device__ inline void store_at(bf16* y, std::int64_t i, float value) {
  y[i] = {std::uint16_t(bf16_pair(value, 0))};
}

/// Four neighbours from an address aligned to 16 bytes.
__device__ inline float4 load_four(const float* x) { return *reinterpret_cast<const float4*>(x); }
__device__ inline void store_four(float* y, const float4& v) { *reinterpret_cast<float4*>(y) = v; }

/// Eight elements in a row from an address aligned to 16 bytes (bf16) or 32 (f32).
struct Eight {
  float values[8];
};
__device__ inline Eight load_eight(const float* x) {
  const auto* const p = reinterpret_cast<const float4*>(x);
  const float4 a = p[0], b = p[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
/// Eight bf16 as they are in memory: half the registers while they are on their way.
__device__ inline uint4 load_eight_bits(const bf16* x) { return *reinterpret_cast<const uint4*>(x); }
__device__ inline Eight widened(const uint4& v) {
  return {{low_of(v.x), high_of(v.x), low_of(v.y), high_of(v.y), low_of(v.z), high_of(v.z), low_of(v.w),
           high_of(v.w)}};
}
__device__ inline const Eight& widened(const Eight& e) { return e; }
__device__ inline Eight load_eight(const bf16* x) { return widened(load_eight_bits(x)); }
__device__ inline void store_eight(float* y, const Eight& e) {
  auto* const p = reinterpret_cast<float4*>(y);
  p[0] = make_float4(e.values[0], e.values[1], e.values[2], e.values[3]);
  p[1] = make_float4(e.values[4], e.values[5], e.values[6], e.values[7]);
}
/// In global memory only, as store_16().
__device__ inline void store_eight(bf16* y, const Eight& e, bool inside = true) {
  store_16(y,
           make_uint4(bf16_pair(e.values[0], e.values[1]), bf16_pair(e.values[2], e.values[3]),
                      bf16_pair(e.values[4], e.values[5]), bf16_pair(e.values[6], e.values[7])),
           inside);
}

/// The count of load_first() where it is known to be eight.
inline constexpr std::integral_constant<int, 8> all_eight;

/// The `count` <= 8 elements from an aligned address on; zeros after them.
template <class T>
__device__ inline Eight load_first(const T* x, std::integral_constant<int, 8>) {
  return load_eight(x);
}
template <class T>
__device__ inline Eight load_first(const T* x, int count) {
  if (count == 8) return load_eight(x);
  Eight e;
#pragma unroll
  for (int k = 0; k < 8; ++k) e.values[k] = k < count ? value_at(x, k) : 0.0f;
  return e;
}
template <class T>
__device__ inline void store_first(T* y, const Eight& e, int count) {
  if (count == 8) return store_eight(y, e);
#pragma unroll
  for (int k = 0; k < 8; ++k)
    if (k < count) store_at(y, k, e.values[k]);
}

/// Calls f with a null pointer to the element type of an activation: with_type(x.dtype(), [&]<class T>(T*) {
/// ... }).
template <class F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return f(static_cast<float*>(nullptr));
    case DType::bf16:
      return f(static_cast<bf16*>(nullptr));
    case DType::i32:
    case DType::u8:
    case DType::f64:
      fail(ExitCode::internal, "cuda: an activation is {}; want f32 or bf16", name_of(dtype));
  }
}

}  // namespace mxtape::cuda
