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
  if (size > 1) v = butterfly<1>(v);
  if (size > 2) v = butterfly<2>(v);
  if (size > 4) v = butterfly<4>(v);
  if (size > 8) v = butterfly<8>(v);
  return v;
}
/// Those of longer strides, between `count` vectors. Of three strides at a time the numbers stay in
/// registers, each with its additions in the same order.
template <int radix>
MXT_LANES void butterflies_between(f32x16* vectors, int count, int step) {
  constexpr int width = sizeof(native::f32) / sizeof(float);
  float* const all = reinterpret_cast<float*>(vectors);
  for (int base = 0; base < count; base += radix * step)
    for (int first = base * lanes; first < (base + step) * lanes; first += width) {
      native::f32 v[radix];
#pragma GCC unroll 8
      for (int i = 0; i < radix; ++i) v[i] = load_as<native::f32>(all + first + i * step * lanes);
#pragma GCC unroll 3
      for (int stride = 1; stride < radix; stride *= 2)
#pragma GCC unroll 8
        for (int i = 0; i < radix; ++i)
          if ((i & stride) == 0) {
            const native::f32 a = v[i], b = v[i + stride];
            v[i] = a + b;
            v[i + stride] = a - b;
          }
#pragma GCC unroll 8
      for (int i = 0; i < radix; ++i) store_as(all + first + i * step * lanes, v[i]);
    }
}
/// Chunks of `length` vectors, which are `count` together.
MXT_LANES void butterflies_between(f32x16* v, int count, int length) {
  int step = 1;
  for (; 8 * step <= length; step *= 8) butterflies_between<8>(v, count, step);
  if (4 * step == length) butterflies_between<4>(v, count, step);
  if (2 * step == length) butterflies_between<2>(v, count, step);
}

MXT_LANES float norm_of(int size) { return 1 / __builtin_sqrtf(float(size)); }

/// Chunks of `size` side by side, `run` elements of a row.
template <class Part>
MXT_LANES void transform_run(float* y, const float* x, HadamardSigns signs, int run, int size, Part part) {
  f32x16 v[most_rotated / lanes];
  const float norm = norm_of(size);
  const int count = (run + lanes - 1) / lanes;
  for (int i = 0; i < count; ++i)
    v[i] = butterflies(part.load(signs.before + i * lanes) * part.load(x + i * lanes), size);
  butterflies_between(v, count, size / lanes);
  for (int i = 0; i < count; ++i)
    part.store(y + i * lanes, v[i] * (part.load(signs.after + i * lanes) * norm));
}

void along_row(float* y, const float* x, std::int64_t cols, HadamardSigns signs, int size) {
  for (std::int64_t at = 0, run = 0; at < cols; at += run) {
    const std::int64_t left = cols - at;
    while (size > left) size /= 2;
    run = left >= 4 * lanes && size < 4 * lanes ? 4 * lanes : left >= lanes && size < lanes ? lanes : size;
    const HadamardSigns own{signs.before + at, signs.after + at};
    if (run < lanes)
      transform_run(y + at, x + at, own, int(run), size, First{run});
    else
      transform_run(y + at, x + at, own, int(run), size, Full{});
  }
}

void along_column(float* y, std::int64_t y_stride, const float* x, std::int64_t x_stride, std::int64_t cols,
                  HadamardSigns signs, int size) {
  const float norm = norm_of(size);
  for_lanes(cols, [&](std::int64_t c, auto part) {
    f32x16 v[most_rotated];
    for (int r = 0; r < size; ++r) v[r] = signs.before[r] * part.load(x + r * x_stride + c);
    butterflies_between(v, size, size);
    for (int r = 0; r < size; ++r) part.store(y + r * y_stride + c, v[r] * (signs.after[r] * norm));
  });
}

}  // namespace

extern const HadamardLoops hadamard_loops{along_row, along_column};

}  // namespace mxtape::cpu::MXT_TIER
