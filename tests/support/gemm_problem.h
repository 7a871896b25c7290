#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/tensors.h"

namespace mxtape::test {

struct Extents {
  std::int64_t M, N, K;
};
// One number, vectors, ragged register tiles, and enough work to be cut into pieces both ways.
inline const std::vector<Extents> all_extents{{1, 1, 1},      {1, 65, 33},    {65, 1, 33},   {5, 7, 9},
                                              {33, 129, 1},   {64, 64, 32},   {130, 17, 77}, {300, 900, 40},
                                              {900, 200, 64}, {128, 1500, 70}};
inline constexpr std::pair<Axis, Axis> all_forms[]{{Axis::row, Axis::column},
                                                   {Axis::row, Axis::row},
                                                   {Axis::column, Axis::column},
                                                   {Axis::column, Axis::row}};

/// a(m, k) and b(n, k), stored as [M, K] and [N, K], or with columns along k.
struct Problem {
  Extents e;
  Axis a_axis, b_axis;
  std::vector<float> a, b;

  Shape a_shape() const { return a_axis == Axis::row ? Shape{e.M, e.K} : Shape{e.K, e.M}; }
  Shape b_shape() const { return b_axis == Axis::row ? Shape{e.N, e.K} : Shape{e.K, e.N}; }
  double left(std::int64_t m, std::int64_t k) const {
    return a[std::size_t(a_axis == Axis::row ? m * e.K + k : k * e.M + m)];
  }
  double right(std::int64_t k, std::int64_t n) const {
    return b[std::size_t(b_axis == Axis::row ? n * e.K + k : k * e.N + n)];
  }
  /// The sum of element m, n, exact where f32 holds every partial sum.
  double sum(std::int64_t m, std::int64_t n) const {
    double s = 0;
    for (std::int64_t k = 0; k < e.K; ++k) s += left(m, k) * right(k, n);
    return s;
  }
};

template <class Draw>
Problem drawn(Extents e, Axis a_axis, Axis b_axis, const Draw& draw) {
  Problem p{e, a_axis, b_axis, std::vector<float>(std::size_t(e.M * e.K)),
            std::vector<float>(std::size_t(e.K * e.N))};
  for (float& v : p.a) v = draw();
  for (float& v : p.b) v = draw();
  return p;
}

inline Problem small_integers(Extents e, Axis a_axis, Axis b_axis, std::mt19937_64& random) {
  return drawn(e, a_axis, b_axis, [&] { return float(int(random() % 13) - 6); });
}

/// Normal draws that bf16 holds; both stored with rows along k.
inline Problem normal_values(Extents e, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  return drawn(e, Axis::row, Axis::row, [&] { return to_f32(to_bf16(normal(random))); });
}

/// `values`, which `dtype` holds, on the device.
inline Tensor upload_as(Backend& backend, DType dtype, Shape shape, const std::vector<float>& values) {
  const Tensor wide = upload(backend, shape, values);
  if (dtype == DType::f32) return wide;
  const Tensor narrow = backend.empty(shape, dtype);
  backend.copy(narrow, wide);
  return narrow;
}

}  // namespace mxtape::test
