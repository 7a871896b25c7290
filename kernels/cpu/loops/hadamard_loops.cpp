#include "kernels/cpu/loops/hadamard_loops.h"

#include <utility>

#include "kernels/cpu/loops/for_lanes.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

template <int stride, class V, int... lane>
MXT_LANES V shuffled(const V& v, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(v, v, (lane ^ stride)...);
}
/// Lane i becomes lane i ^ stride.
template <int stride, class V>
MXT_LANES V swapped(const V& v) {
  constexpr int bytes = stride * int(sizeof(float));
  if constexpr (!IsPair<V>::value)
    return shuffled<stride>(v, std::make_integer_sequence<int, sizeof(V) / sizeof(float)>{});
  else if constexpr (bytes == sizeof v.lo)
    return {v.hi, v.lo};
  else
    return {swapped<stride>(v.lo), swapped<stride>(v.hi)};
}

/// The butterflies of one stride below 16 inside a vector: a + b in the lanes without bit `stride`, a - b in
/// those with.
template <int stride>
MXT_LANES f32x16 butterfly(const f32x16& v) {
  std::uint32_t minus[lanes];
  for (int i = 0; i < lanes; ++i) minus[i] = (i & stride) != 0 ? 0x80000000u : 0;
  return swapped<stride>(v) + floats(bits(v) ^ load_as<u32x16>(minus));
}
/// All strides below `size` inside a vector: size / 16 of a chunk, or 16 / size chunks.
MXT_LANES f32x16 butterflies(f32x16 v, int size) {
  v = butterfly<1>(v);
  if (size > 2) v = butterfly<2>(v);
  if (size > 4) v = butterfly<4>(v);
  if (size > 8) v = butterfly<8>(v);
  return v;
}
/// Those of longer strides, between `count` vectors.
MXT_LANES void butterflies_between(f32x16* v, int count) {
  for (int stride = 1; stride < count; stride *= 2)
    for (int base = 0; base < count; base += 2 * stride)
      for (int i = base; i < base + stride; ++i) {
        const f32x16 a = v[i], b = v[i + stride];
        v[i] = a + b;
        v[i + stride] = a - b;
      }
}

MXT_LANES float norm_of(int size) { return 1 / __builtin_sqrtf(float(size)); }

/// A chunk too short for a vector.
void transform_short(float* y, const float* x, const float* signs, int size) {
  float v[lanes];
  for (int i = 0; i < size; ++i) v[i] = signs[i] * x[i];
  for (int stride = 1; stride < size; stride *= 2)
    for (int base = 0; base < size; base += 2 * stride)
      for (int i = base; i < base + stride; ++i) {
        const float a = v[i], b = v[i + stride];
        v[i] = a + b;
        v[i + stride] = a - b;
      }
  for (int i = 0; i < size; ++i) y[i] = v[i] * norm_of(size);
}

void along_row(float* y, const float* x, std::int64_t cols, const float* signs, int size) {
  std::int64_t at = 0;
  while (at < cols) {
    while (size > cols - at) size /= 2;
    // Short chunks side by side fill a vector.
    const int run = size < lanes && at + lanes <= cols ? lanes : size;
    if (run < lanes) {
      transform_short(y + at, x + at, signs + at, size);
    } else {
      f32x16 v[most_rotated / lanes];
      const int count = run / lanes;
      for (int i = 0; i < count; ++i)
        v[i] = butterflies(load(signs + at + i * lanes) * load(x + at + i * lanes), size);
      butterflies_between(v, count);
      for (int i = 0; i < count; ++i) store(y + at + i * lanes, v[i] * norm_of(size));
    }
    at += run;
  }
}

void along_column(float* y, const float* x, std::int64_t cols, const float* signs, int size) {
  const float norm = norm_of(size);
  for_lanes(cols, [&](std::int64_t c, auto part) {
    f32x16 v[most_rotated];
    for (int r = 0; r < size; ++r) v[r] = signs[r] * part.load(x + r * cols + c);
    butterflies_between(v, size);
    for (int r = 0; r < size; ++r) part.store(y + r * cols + c, v[r] * norm);
  });
}

}  // namespace

extern const HadamardLoops hadamard_loops{along_row, along_column};

}  // namespace mxtape::cpu::MXT_TIER
