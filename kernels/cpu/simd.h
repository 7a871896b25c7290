#pragma once
// For *_loops.cpp only: sixteen lanes on every tier (one AVX-512 register, two AVX2, four SSE2), so that sums
// have the same order of additions everywhere. Everything is static and always inlined: a tier never sees
// another tier's code.
#include <cstdint>
#include <cstring>

namespace mxtape::cpu {

inline constexpr int lanes = 16;
typedef float f32x16 __attribute__((vector_size(64)));
typedef std::int32_t i32x16 __attribute__((vector_size(64)));
typedef std::uint32_t u32x16 __attribute__((vector_size(64)));
typedef std::uint16_t u16x16 __attribute__((vector_size(32)));

#define MXT_LANES [[gnu::always_inline]] static inline

MXT_LANES f32x16 all(float v) { return f32x16{} + v; }
MXT_LANES f32x16 load(const float* p) {
  f32x16 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
MXT_LANES void store(float* p, f32x16 v) { std::memcpy(p, &v, sizeof v); }
/// The first n lanes from memory, the rest 0; n < 16.
MXT_LANES f32x16 load_first(const float* p, std::int64_t n) {
  f32x16 v{};
  std::memcpy(&v, p, std::size_t(n) * sizeof(float));
  return v;
}
MXT_LANES void store_first(float* p, f32x16 v, std::int64_t n) {
  std::memcpy(p, &v, std::size_t(n) * sizeof(float));
}

MXT_LANES u32x16 bits(f32x16 v) {
  u32x16 u;
  std::memcpy(&u, &v, sizeof u);
  return u;
}
MXT_LANES f32x16 floats(u32x16 u) {
  f32x16 v;
  std::memcpy(&v, &u, sizeof v);
  return v;
}
MXT_LANES f32x16 to_floats(i32x16 v) { return __builtin_convertvector(v, f32x16); }
MXT_LANES i32x16 to_ints(f32x16 v) { return __builtin_convertvector(v, i32x16); }
MXT_LANES f32x16 select(i32x16 mask, f32x16 yes, f32x16 no) {
  const u32x16 m = (u32x16)mask;
  return floats((bits(yes) & m) | (bits(no) & ~m));
}
MXT_LANES f32x16 max(f32x16 a, f32x16 b) { return select(a > b, a, b); }
MXT_LANES f32x16 magnitude(f32x16 v) { return floats(bits(v) & 0x7fffffffu); }

/// 16 -> 8 -> 4 -> 2 -> 1: lane i with lane i + 8, and so on. The same on every tier.
MXT_LANES float sum(f32x16 v) {
  float s[lanes];
  std::memcpy(s, &v, sizeof v);
  for (int half = lanes / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) s[i] += s[i + half];
  return s[0];
}
MXT_LANES float largest(f32x16 v) {
  float s[lanes];
  std::memcpy(s, &v, sizeof v);
  for (int half = lanes / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) s[i] = s[i + half] > s[i] ? s[i + half] : s[i];
  return s[0];
}

}  // namespace mxtape::cpu
