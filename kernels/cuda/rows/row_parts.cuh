#pragma once
#include <type_traits>

#include "kernels/cuda/elements.cuh"

namespace mxtape::cuda {

/// How a row of C elements is dealt to a team of `workers` threads, eight to each in a round. Packed rows,
/// whose starts are all aligned (C a multiple of 8): eight neighbours, an access of 16 bytes or more. Other
/// rows: one element after the other in turn, so that the team's accesses are neighbours. A worker's columns
/// are the same in every row.
template <bool packed>
struct RowParts {
  int C, workers, worker;

  __device__ int rounds() const { return (C + 8 * workers - 1) / (8 * workers); }
  __device__ int column(int round, int k) const {
    return packed ? (round * workers + worker) * 8 + k : (round * 8 + k) * workers + worker;
  }
  __device__ bool inside(int round, int k) const { return column(round, packed ? 0 : k) < C; }

  /// The worker's eight of a round; `missing` where they lie outside the row.
  template <class T>
  __device__ Eight load(const T* row, int round, float missing = 0) const {
    Eight e;
    if constexpr (packed) {
      if (inside(round, 0)) return load_eight(row + column(round, 0));
#pragma unroll
      for (float& v : e.values) v = missing;
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) e.values[k] = inside(round, k) ? value_at(row, column(round, k)) : missing;
    }
    return e;
  }
  /// load(), as a number of bits that widened() takes.
  template <class T>
  __device__ auto load_bits(const T* row, int round) const {
    if constexpr (packed && std::is_same_v<T, bf16>)
      return inside(round, 0) ? load_eight_bits(row + column(round, 0)) : make_uint4(0, 0, 0, 0);
    else
      return load(row, round);
  }
  template <class T>
  __device__ void store(T* row, int round, const Eight& e) const {
    if constexpr (packed) {
      if (inside(round, 0)) store_eight(row + column(round, 0), e);
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k)
        if (inside(round, k)) store_at(row, column(round, k), e.values[k]);
    }
  }
};

/// Calls f(std::bool_constant<packed>) for rows of C elements.
template <class F>
void with_packed(std::int64_t C, const F& f) {
  C % 8 == 0 ? f(std::true_type{}) : f(std::false_type{});
}

__device__ inline float sum_of(const Eight& e) {
  const auto& v = e.values;
  return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

}  // namespace mxtape::cuda
