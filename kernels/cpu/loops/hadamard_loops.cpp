#include "kernels/cpu/loops/hadamard_loops.h"

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
  float sign[lanes];
  for (int i = 0; i < lanes; ++i) sign[i] = (i & stride) != 0 ? -1.0f : 1.0f;
  return multiply_add(v, load(sign), swapped<stride>(v));
}
/// The butterflies of strides 1, 2, 4 ... below `size` between numbers, chunks of so many, in registers.
template <int size, class V, int count>
MXT_LANES void butterflies(V (&v)[count]) {
#pragma GCC unroll 4
  for (int stride = 1; stride < size; stride *= 2)
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i)
      if ((i & stride) == 0) {
        const V a = v[i], b = v[i + stride];
        v[i] = a + b;
        v[i + stride] = a - b;
      }
}

MXT_LANES float norm_of(int size) { return 1 / __builtin_sqrtf(float(size)); }

/// Calls run(n) with size, a power of two up to most_rotated, as a constant.
template <int largest = most_rotated, class Run>
MXT_LANES void with_size(int size, const Run& run) {
  if constexpr (largest > 1)
    if (size < largest) return with_size<largest / 2>(size, run);
  run(std::integral_constant<int, largest>{});
}

/// Elements of a row that stay in registers: a chunk, or enough small ones to hide what an addition takes.
constexpr int run_of(int size) { return size > 4 * lanes ? size : 4 * lanes; }

/// `cols` of whole runs.
template <int size>
MXT_LANES void transform_row(float* y, const float* x, std::int64_t cols, HadamardSigns signs) {
  constexpr int count = run_of(size) / lanes;
  const float norm = norm_of(size);
  for (std::int64_t at = 0; at < cols; at += count * lanes) {
    f32x16 numbers[count];
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) {
      f32x16 v = load(signs.before + at + i * lanes) * load(x + at + i * lanes);
      if constexpr (size > 1) v = butterfly<1>(v);
      if constexpr (size > 2) v = butterfly<2>(v);
      if constexpr (size > 4) v = butterfly<4>(v);
      if constexpr (size > 8) v = butterfly<8>(v);
      numbers[i] = v;
    }
    butterflies<size / lanes>(numbers);
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i)
      store(y + at + i * lanes, numbers[i] * (load(signs.after + at + i * lanes) * norm));
  }
}

/// Chunks at the end of a row that do not fill a run.
template <int size>
void transform_rest(float* y, const float* x, std::int64_t length, HadamardSigns signs) {
  constexpr int run = run_of(size);
  float in[run] = {}, before[run] = {}, after[run] = {};
  const std::size_t bytes = std::size_t(length) * sizeof(float);
  std::memcpy(in, x, bytes), std::memcpy(before, signs.before, bytes), std::memcpy(after, signs.after, bytes);
  transform_row<size>(in, in, run, {before, after});
  std::memcpy(y, in, bytes);
}

void along_row(float* y, std::int64_t y_stride, const Tile& t, HadamardSigns signs, int size) {
  for (std::int64_t at = 0, done = 0; at < t.cols; at += done) {
    const std::int64_t left = t.cols - at;
    while (size > left) size /= 2;
    const HadamardSigns own{signs.before + at, signs.after + at};
    with_size(size, [&](auto constant) {
      constexpr int chunk = constant();
      const std::int64_t whole = left / run_of(chunk) * run_of(chunk);
      done = whole > 0 ? whole : left / chunk * chunk;
      for (int r = 0; r < t.rows; ++r) {
        float* const to = y + r * y_stride + at;
        const float* const from = t.x + r * t.stride + at;
        whole > 0 ? transform_row<chunk>(to, from, done, own) : transform_rest<chunk>(to, from, done, own);
      }
    });
  }
}

/// The butterflies of `size` numbers of as many columns as a register has lanes, those of strides from `step`
/// on: half of the registers hold numbers at a time, each with its additions in the order of the strides.
template <int size, int step, class Load, class Store>
MXT_LANES void transform_column(const Load& load_number, const Store& store_number) {
  constexpr int left = size / step, most = has_avx512 ? 16 : 8, radix = left < most ? left : most;
  constexpr bool last = step * radix == size;
  native::f32 between[last ? 1 : size];
  for (int base = 0; base < size; base += radix * step)
    for (int first = base; first < base + step; ++first) {
      native::f32 v[radix];
#pragma GCC unroll 16
      for (int i = 0; i < radix; ++i) v[i] = load_number(first + i * step);
      butterflies<radix>(v);
#pragma GCC unroll 16
      for (int i = 0; i < radix; ++i)
        if constexpr (last)
          store_number(first + i * step, v[i]);
        else
          between[first + i * step] = v[i];
    }
  if constexpr (!last) transform_column<size, step * radix>([&](int i) { return between[i]; }, store_number);
}

/// `cols`: as many as a register has lanes, or a multiple.
template <int size>
void transform_columns(float* y, std::int64_t y_stride, const float* x, std::int64_t x_stride,
                       std::int64_t cols, HadamardSigns signs) {
  constexpr int width = sizeof(native::f32) / sizeof(float);
  const float norm = norm_of(size);
  for (std::int64_t c = 0; c < cols; c += width)
    transform_column<size, 1>(
        [&](int r) { return signs.before[r] * load_as<native::f32>(x + r * x_stride + c); },
        [&](int r, const native::f32& v) { store_as(y + r * y_stride + c, v * (signs.after[r] * norm)); });
}

void along_column(float* y, std::int64_t y_stride, const float* x, std::int64_t x_stride, std::int64_t cols,
                  HadamardSigns signs, int size) {
  const std::int64_t whole = cols / lanes * lanes, left = cols - whole;
  with_size(size, [&](auto constant) {
    constexpr int chunk = constant();
    transform_columns<chunk>(y, y_stride, x, x_stride, whole, signs);
    if (left == 0) return;
    alignas(64) float rest[chunk * lanes] = {};
    const std::size_t bytes = std::size_t(left) * sizeof(float);
    for (int r = 0; r < chunk; ++r) std::memcpy(rest + r * lanes, x + r * x_stride + whole, bytes);
    transform_columns<chunk>(rest, lanes, rest, lanes, lanes, signs);
    for (int r = 0; r < chunk; ++r) std::memcpy(y + r * y_stride + whole, rest + r * lanes, bytes);
  });
}

}  // namespace

extern const HadamardLoops hadamard_loops{along_row, along_column};

}  // namespace mxtape::cpu::MXT_TIER
