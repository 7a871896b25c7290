#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "core/bf16.h"

/// What kernels use of the machine: the only file with PTX. Warps have 32 lanes and every call below whose
/// name begins with warp_ or mma_ is made by all of them together.
namespace mxtape::cuda {

inline constexpr int warp_lanes = 32;
inline constexpr unsigned all_lanes = 0xffffffffu;

/// Threads that a multiprocessor holds, of the architecture that is being compiled for: CUDA C++ Programming
/// Guide, technical specifications per compute capability. For launch bounds: more than it holds is an error.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
inline constexpr int threads_of_multiprocessor = 1536;
#else
inline constexpr int threads_of_multiprocessor = 2048;
#endif

__device__ inline int lane_id() { return int(threadIdx.x % warp_lanes); }
__device__ inline int warp_id() { return int(threadIdx.x / warp_lanes); }
__device__ inline void block_sync() { __syncthreads(); }
__device__ inline void warp_sync() { __syncwarp(); }

/// The block's dynamic shared memory, aligned to 128 bytes.
template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char mxtape_dynamic_shared[];
  return reinterpret_cast<T*>(mxtape_dynamic_shared);
}

/// The value of lane `lane_id() ^ mask`, or of lane `lane`; T has four bytes.
template <class T>
__device__ inline T warp_xor(T value, int mask) {
  return __shfl_xor_sync(all_lanes, value, mask);
}
template <class T>
__device__ inline T warp_from(T value, int lane) {
  return __shfl_sync(all_lanes, value, lane);
}
__device__ inline unsigned warp_ballot(bool vote) { return __ballot_sync(all_lanes, vote); }

/// Two floats as a pair of bf16, `low` in the low half: to nearest, ties to even; NaN becomes 0x7fff.
__device__ inline std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ inline float low_of(std::uint32_t pair) { return float_of(pair << 16); }
__device__ inline float high_of(std::uint32_t pair) { return float_of(pair & 0xffff0000u); }

/// Pairs of bf16, each half by itself: a b + c with one rounding, the larger, the smaller. NaN of an operand
/// becomes NaN of the result; subnormals are numbers as others.
__device__ inline std::uint32_t pair_fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ inline std::uint32_t pair_max(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ inline std::uint32_t pair_min(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
/// A pair of magnitudes with the signs of another pair; one instruction, where nvcc would share the signs
/// among several and make two of each.
__device__ inline std::uint32_t pair_with_signs(std::uint32_t magnitudes, std::uint32_t signs) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, 0x80008000, 0xf8;" : "=r"(d) : "r"(magnitudes), "r"(signs));  // a | (b & c)
  return d;
}
/// The low halves of two words, a's in the low half; their high halves.
__device__ inline std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ inline std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

/// 2^x with a relative error of at most 2^-22 (PTX ISA); 0 where it is below 2^-126, as the CPU's.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x with a relative error of at most 2^-23 (PTX ISA); 0 where it is below 2^-126.
__device__ inline float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// d += a b for tiles a [16, 16], b [16, 8], d [16, 8] of bf16, bf16, f32, spread over the warp. With g =
/// lane / 4 and t = lane % 4: a[0..3] hold the pairs of columns 2 t and 2 t + 1 of rows g, g + 8 (a[0], a[1])
/// and of columns 2 t + 8 and 2 t + 9 of the same rows (a[2], a[3]); b[0], b[1] the pairs of rows 2 t, 2 t +
/// 1 and 2 t
/// + 8, 2 t + 9 of column g; d[0..1] columns 2 t and 2 t + 1 of row g, d[2..3] of row g + 8. PTX ISA, section
/// on mma.m16n8k16.
__device__ inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(  // as all lanes make it, it must not move into a branch
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four 8x8 tiles of 16-bit numbers from shared memory: lane l gives the address of row l % 8 of tile l / 8
/// (16 bytes, aligned to 16) and gets in r[i] the pair at row l / 4, columns 2 (l % 4) and 2 (l % 4) + 1 of
/// tile i.
__device__ inline void warp_load_tiles(std::uint32_t (&r)[4], const void* row) {
  const auto address = std::uint32_t(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
/// The same with each tile transposed: r[i] is the pair at rows 2 (l % 4) and 2 (l % 4) + 1, column l / 4.
__device__ inline void warp_load_tiles_transposed(std::uint32_t (&r)[4], const void* row) {
  const auto address = std::uint32_t(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// Sixteen bytes to an address in global memory aligned to 16, if `inside`; one instruction, not a branch:
/// nvcc makes four stores of an assignment whose parts come from assembly.
__device__ inline void store_16(void* to, const uint4& v, bool inside = true) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.b32 [%0], {%1, %2, %3, %4}; }"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(int(inside))
               : "memory");
}

/// Starts a copy of 16 bytes from global to shared memory, both aligned to 16. `inside` false writes zeros
/// and reads nothing. Copies are collected by async_commit() into groups; async_wait<n>() waits until at most
/// the n newest groups of this thread are under way. Others see them after a block_sync().
__device__ inline void async_copy_16(void* shared, const void* global, bool inside = true) {
  const auto address = std::uint32_t(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(global), "r"(inside ? 16 : 0)
               : "memory");
}
__device__ inline void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n>
__device__ inline void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

/// Sum, largest value over the warp, or over each `lanes` of it, the same in all lanes: a butterfly, so its
/// order is fixed.
template <int lanes = warp_lanes>
__device__ inline float warp_sum(float x) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) x += warp_xor(x, mask);
  return x;
}
template <int lanes = warp_lanes>
__device__ inline float warp_max(float x) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    const float other = warp_xor(x, mask);
    x = other > x ? other : x;
  }
  return x;
}

}  // namespace mxtape::cuda
