#pragma once
// For *_loops.cpp only: sixteen lanes on every tier (one AVX-512 register, two of AVX2, four of SSE2), so
// that sums have the same order of additions everywhere. Wider values than the machine's registers are pairs
// of halves: g++ 12 would take a comparison of a too wide vector_size apart into single elements. Everything
// is static, always inlined and in the tier's namespace: a tier never sees another tier's code.
#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef MXT_TIER
#error "simd.h is for files compiled once per tier (cmake/tiers.cmake)"
#endif
#define MXT_LANES [[gnu::always_inline]] static inline

namespace mxtape::cpu::MXT_TIER {

inline constexpr int lanes = 16;

#if defined(__AVX512F__)
#define MXT_REGISTER 64
#elif defined(__AVX__)
#define MXT_REGISTER 32
#else
#define MXT_REGISTER 16
#endif
namespace native {
typedef float f32 __attribute__((vector_size(MXT_REGISTER)));
typedef std::int32_t i32 __attribute__((vector_size(MXT_REGISTER)));
typedef std::uint32_t u32 __attribute__((vector_size(MXT_REGISTER)));
typedef double f64 __attribute__((vector_size(MXT_REGISTER)));
typedef std::uint16_t u16 __attribute__((vector_size(MXT_REGISTER / 2)));    // as many lanes as an f32
typedef std::uint8_t narrow __attribute__((vector_size(MXT_REGISTER / 4)));  // the same
typedef std::uint8_t u8 __attribute__((vector_size(MXT_REGISTER)));
typedef std::int8_t i8 __attribute__((vector_size(MXT_REGISTER)));
typedef std::uint64_t u64 __attribute__((vector_size(MXT_REGISTER)));
typedef std::uint32_t half_u32 __attribute__((vector_size(MXT_REGISTER / 2)));  // as many lanes as a u64
typedef float half_f32 __attribute__((vector_size(MXT_REGISTER / 2)));          // as many lanes as an f64
}  // namespace native
#undef MXT_REGISTER
inline constexpr bool has_avx512 = sizeof(native::f32) == 64;

template <class V>
struct Pair {
  V lo, hi;
};
/// V, doubled until it fills `bytes`.
template <class V, int bytes, bool enough = sizeof(V) == bytes>
struct Doubled {
  using Type = typename Doubled<Pair<V>, bytes>::Type;
};
template <class V, int bytes>
struct Doubled<V, bytes, true> {
  using Type = V;
};
using f32x16 = Doubled<native::f32, 64>::Type;
using i32x16 = Doubled<native::i32, 64>::Type;
using u32x16 = Doubled<native::u32, 64>::Type;
using f64x16 = Doubled<native::f64, 128>::Type;

/// What one lane holds.
template <class V>
struct LaneOf {
  using Type = std::remove_cvref_t<decltype(V{}[0])>;
};
template <class V>
struct LaneOf<Pair<V>> : LaneOf<V> {};

// Lane by lane, also with one number for all lanes. Comparisons give i32x16: -1 where true, 0 where false.
#define MXT_BINARY(op)                                                       \
  template <class V>                                                         \
  MXT_LANES auto operator op(const Pair<V>& a, const Pair<V>& b) {           \
    return Pair<decltype(a.lo op b.lo)>{a.lo op b.lo, a.hi op b.hi};         \
  }                                                                          \
  template <class V>                                                         \
  MXT_LANES auto operator op(const Pair<V>& a, typename LaneOf<V>::Type b) { \
    return Pair<decltype(a.lo op b)>{a.lo op b, a.hi op b};                  \
  }                                                                          \
  template <class V>                                                         \
  MXT_LANES auto operator op(typename LaneOf<V>::Type a, const Pair<V>& b) { \
    return Pair<decltype(a op b.lo)>{a op b.lo, a op b.hi};                  \
  }
MXT_BINARY(+)
MXT_BINARY(-)
MXT_BINARY(*)
MXT_BINARY(/)
MXT_BINARY(&)
MXT_BINARY(|)
MXT_BINARY(^)
MXT_BINARY(<<)
MXT_BINARY(>>)
MXT_BINARY(<)
MXT_BINARY(>)
MXT_BINARY(<=)
MXT_BINARY(>=)
MXT_BINARY(==)
MXT_BINARY(!=)
#undef MXT_BINARY
template <class V>
MXT_LANES Pair<V> operator-(const Pair<V>& a) {
  return {-a.lo, -a.hi};
}
template <class V>
MXT_LANES Pair<V> operator~(const Pair<V>& a) {
  return {~a.lo, ~a.hi};
}
template <class V, class B>
MXT_LANES Pair<V>& operator+=(Pair<V>& a, const B& b) {
  return a = a + b;
}
template <class V, class B>
MXT_LANES Pair<V>& operator*=(Pair<V>& a, const B& b) {
  return a = a * b;
}

// A function of one register, and the same on pairs of them.
#define MXT_UNARY(name, From, To, value)                       \
  MXT_LANES To name(const From& v) { return value; }           \
  template <class V>                                           \
  MXT_LANES auto name(const Pair<V>& v) {                      \
    return Pair<decltype(name(v.lo))>{name(v.lo), name(v.hi)}; \
  }
MXT_UNARY(bits, native::f32, native::u32, (native::u32)v)
MXT_UNARY(floats, native::u32, native::f32, (native::f32)v)
MXT_UNARY(as_unsigned, native::i32, native::u32, (native::u32)v)
MXT_UNARY(as_signed, native::u32, native::i32, (native::i32)v)
MXT_UNARY(to_floats, native::i32, native::f32, __builtin_convertvector(v, native::f32))
MXT_UNARY(to_ints, native::f32, native::i32, __builtin_convertvector(v, native::i32))
#undef MXT_UNARY

template <class V>
MXT_LANES V select(const native::i32& mask, const V& yes, const V& no) {
  return mask ? yes : no;
}
template <class M, class V>
MXT_LANES Pair<V> select(const Pair<M>& mask, const Pair<V>& yes, const Pair<V>& no) {
  return {select(mask.lo, yes.lo, no.lo), select(mask.hi, yes.hi, no.hi)};
}

template <class V>
struct IsPair {
  static constexpr bool value = false;
};
template <class V>
struct IsPair<Pair<V>> {
  static constexpr bool value = true;
};
template <class V>
MXT_LANES V load_as(const void* p) {
  if constexpr (IsPair<V>::value) {
    using Half = decltype(V::lo);
    return {load_as<Half>(p), load_as<Half>(static_cast<const char*>(p) + sizeof(Half))};
  } else {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
}
template <class V>
MXT_LANES void store_as(void* p, const V& v) {
  if constexpr (IsPair<V>::value) {
    store_as(p, v.lo);
    store_as(static_cast<char*>(p) + sizeof v.lo, v.hi);
  } else {
    std::memcpy(p, &v, sizeof v);
  }
}

MXT_LANES f32x16 all(float v) { return v - f32x16{}; }  // exact, so compilers leave the subtraction out
MXT_LANES f32x16 load(const float* p) { return load_as<f32x16>(p); }
MXT_LANES void store(float* p, const f32x16& v) { store_as(p, v); }
/// The first n lanes from memory, the rest 0; n < 16.
MXT_LANES f32x16 load_first(const float* p, std::int64_t n) {
  float s[lanes] = {};
  std::memcpy(s, p, std::size_t(n) * sizeof(float));
  return load(s);
}
MXT_LANES void store_first(float* p, const f32x16& v, std::int64_t n) {
  float s[lanes];
  store(s, v);
  std::memcpy(p, s, std::size_t(n) * sizeof(float));
}
/// As many of sixteen numbers as there are, the rest 0.
MXT_LANES f32x16 load_there(const float* p, std::int64_t n) {
  return n >= lanes ? load(p) : n <= 0 ? f32x16{} : load_first(p, n);
}
MXT_LANES void store_there(float* p, const f32x16& v, std::int64_t n) {
  if (n > 0) n >= lanes ? store(p, v) : store_first(p, v, n);
}

MXT_LANES i32x16 all_ints(std::int32_t v) { return i32x16{} + v; }
MXT_LANES i32x16 lane_numbers() {
  constexpr std::int32_t numbers[lanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load_as<i32x16>(numbers);
}
#if defined(__AVX512F__)
// g++ 12 sees the maximum in a > b ? a : b only if a and b are nothing but names. (maskz: its header's
// unmasked form reads an uninitialised value on purpose, and warns.)
MXT_LANES f32x16 max(const f32x16& a, const f32x16& b) { return _mm512_maskz_max_ps(0xffff, a, b); }
MXT_LANES f32x16 min(const f32x16& a, const f32x16& b) { return _mm512_maskz_min_ps(0xffff, a, b); }
MXT_LANES i32x16 max(const i32x16& a, const i32x16& b) {
  return (i32x16)_mm512_maskz_max_epi32(0xffff, (__m512i)a, (__m512i)b);
}
#else
MXT_LANES f32x16 max(const f32x16& a, const f32x16& b) { return select(a > b, a, b); }
MXT_LANES f32x16 min(const f32x16& a, const f32x16& b) { return select(a < b, a, b); }
MXT_LANES i32x16 max(const i32x16& a, const i32x16& b) { return select(a > b, a, b); }
#endif
MXT_LANES f32x16 magnitude(const f32x16& v) { return floats(bits(v) & 0x7fffffffu); }

/// a * b + c, rounded once; where a * b is exact on machines without the instruction, too.
MXT_LANES native::f32 multiply_add(const native::f32& a, const native::f32& b, const native::f32& c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return (native::f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
template <class V>
MXT_LANES Pair<V> multiply_add(const Pair<V>& a, const Pair<V>& b, const Pair<V>& c) {
  return {multiply_add(a.lo, b.lo, c.lo), multiply_add(a.hi, b.hi, c.hi)};
}

MXT_LANES native::f32 sqrt(const native::f32& v) {
  native::f32 root;
  for (unsigned i = 0; i < sizeof v / sizeof(float); ++i) root[i] = __builtin_sqrtf(v[i]);
  return root;
}
template <class V>
MXT_LANES Pair<V> sqrt(const Pair<V>& v) {
  return {sqrt(v.lo), sqrt(v.hi)};
}

/// 16 numbers from memory, in double.
template <class V = f64x16>
MXT_LANES V load_double(const float* p) {
  if constexpr (IsPair<V>::value) {
    using Half = decltype(V::lo);
    return {load_double<Half>(p), load_double<Half>(p + sizeof(Half) / sizeof(double))};
  } else {
    return __builtin_convertvector(load_as<native::half_f32>(p), native::f64);
  }
}

/// The upper halves of 16 words to memory: f32 that are exact in bf16 become bf16.
template <class V>
MXT_LANES void store_upper(std::uint16_t* p, const V& v) {
  if constexpr (IsPair<V>::value) {
    store_upper(p, v.lo);
    store_upper(p + sizeof v.lo / sizeof(std::uint32_t), v.hi);
  } else {
#if defined(__AVX512BW__)
    typedef std::uint16_t halves __attribute__((vector_size(64)));
    const halves h = (halves)v;
    store_as(p, __builtin_shufflevector(h, h, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
#else
    store_as(p, __builtin_convertvector(v >> 16, native::u16));
#endif
  }
}

/// 16 half words from memory, as words.
template <class V = u32x16>
MXT_LANES V load_halves(const std::uint16_t* p) {
  if constexpr (IsPair<V>::value) {
    using Half = decltype(V::lo);
    return {load_halves<Half>(p), load_halves<Half>(p + sizeof(Half) / sizeof(std::uint32_t))};
  } else {
#if defined(__AVX512F__)
    return (V)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)load_as<native::u16>(p));
#else
    return __builtin_convertvector(load_as<native::u16>(p), native::u32);
#endif
  }
}

/// As many of them as there are, the rest 0.
MXT_LANES u32x16 load_halves_there(const std::uint16_t* p, std::int64_t n) {
  if (n >= lanes) return load_halves(p);
  std::uint16_t s[lanes] = {};
  if (n > 0) std::memcpy(s, p, std::size_t(n) * sizeof *p);
  return load_halves(s);
}

MXT_LANES f32x16 wide(const float* p) { return load(p); }
MXT_LANES f32x16 wide(const std::uint16_t* p) { return floats(load_halves(p) << 16); }  // of bf16

/// The lowest bytes of 16 words to memory.
template <class V>
MXT_LANES void store_narrow(void* p, const V& v) {
  if constexpr (IsPair<V>::value) {
    store_narrow(p, v.lo);
    store_narrow(static_cast<std::uint8_t*>(p) + sizeof v.lo / sizeof(std::uint32_t), v.hi);
  } else {
    store_as(p, __builtin_convertvector(v, native::narrow));
  }
}
/// 16 bytes from memory, as words.
template <class V = u32x16>
MXT_LANES V load_narrow(const std::uint8_t* p) {
  if constexpr (IsPair<V>::value) {
    using Half = decltype(V::lo);
    return {load_narrow<Half>(p), load_narrow<Half>(p + sizeof(Half) / sizeof(std::uint32_t))};
  } else {  // g++ 12 would take the conversion apart into single elements
#if defined(__AVX512F__)
    return (V)_mm512_maskz_cvtepu8_epi32(0xffff, (__m128i)load_as<native::narrow>(p));
#elif defined(__AVX2__)
    return (V)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
    return __builtin_convertvector(load_as<native::narrow>(p), native::u32);
#endif
  }
}

typedef std::int32_t i32x4 __attribute__((vector_size(16)));
/// From [row][column] to [column][row].
MXT_LANES void transpose(i32x4 (&row)[4]) {
  const i32x4 a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
              b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
              c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
              d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  row[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5), row[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  row[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5), row[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/// The lowest bytes of four rows of words in [-128, 127], four by four: from [row][quad] to [quad][row].
MXT_LANES void quads_of_rows(i32x4 (&quad)[4], const i32x16 (&row)[4]) {
#if defined(__AVX2__) && !defined(__AVX512F__)  // through memory, loads would wait for narrower stores
  const auto two_rows = [](const i32x16& r, const i32x16& s) {
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32((__m256i)r.lo, (__m256i)r.hi),
                                             _mm256_packs_epi32((__m256i)s.lo, (__m256i)s.hi));
    return _mm256_shuffle_epi32(bytes, 0xd8);  // quads 0 of both, then 2; 1 and 3 in the upper half
  };
  const __m256i a = two_rows(row[0], row[1]), b = two_rows(row[2], row[3]);
  const __m256i first[2] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)};
  std::memcpy(quad, first, sizeof first);
#else
  std::int8_t narrow[4][lanes];
  for (int r = 0; r < 4; ++r) store_narrow(narrow[r], row[r]);
  std::memcpy(quad, narrow, sizeof narrow);
  transpose(quad);
#endif
}

/// Lane i with lane i + 8, then 4, 2, 1. The same on every tier.
template <class T, class V, class Join>
MXT_LANES T fold(const V& v, const Join& join) {
  T s[lanes];
  store_as(s, v);
  for (int i = 0; i < 8; ++i) s[i] = join(s[i], s[i + 8]);
  for (int i = 0; i < 4; ++i) s[i] = join(s[i], s[i + 4]);
  for (int i = 0; i < 2; ++i) s[i] = join(s[i], s[i + 2]);
  return join(s[0], s[1]);
}
/// True if a lane of a comparison's result is.
MXT_LANES bool any(const i32x16& mask) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
  return fold<std::int32_t>(mask, [](std::int32_t a, std::int32_t b) { return a | b; }) != 0;
#endif
}
MXT_LANES float sum(const f32x16& v) {
  return fold<float>(v, [](float a, float b) { return a + b; });
}
MXT_LANES double sum_double(const f64x16& v) {
  return fold<double>(v, [](double a, double b) { return a + b; });
}
MXT_LANES float largest(const f32x16& v) {
  return fold<float>(v, [](float a, float b) { return b > a ? b : a; });
}

}  // namespace mxtape::cpu::MXT_TIER
