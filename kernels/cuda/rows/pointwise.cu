#include <algorithm>

#include "core/normal_tail.h"
#include "kernels/calls_rows.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows/row_parts.cuh"

namespace mxtape {
namespace cuda {
namespace {

constexpr unsigned threads = 256;

// A thread computes eight neighbours: op(i, count) from element i on. Inputs are read before y, which may be
// one of them, is written. The count of all but the last thread is a constant: a branch around each load
// would make it wait for the one before.
template <class T, class Op>
__global__ void pointwise_kernel(T* y, std::int64_t n, Op op) {
  const std::int64_t i = 8 * (std::int64_t(blockIdx.x) * threads + threadIdx.x);
  if (i >= n) return;
  if (n - i >= 8)
    store_eight(y + i, op(i, all_eight));
  else
    store_first(y + i, op(i, int(n - i)), int(n - i));
}

template <class T>
struct Add {
  const T *a, *b;
  template <class Count>
  __device__ Eight operator()(std::int64_t i, Count count) const {
    Eight sum = load_first(a + i, count);
    const Eight more = load_first(b + i, count);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum.values[k] += more.values[k];
    return sum;
  }
};

// The tanh form of GELU: 0.5 x (1 + tanh(u)) = x sigma(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3) and the
// logistic function sigma(z) = 1 / (1 + e^-z).
constexpr float cubic = 0.044715f;
constexpr float two_slope = 1.5957691f;        // 2 sqrt(2 / pi)
constexpr float two_slope_log2e = 2.3022082f;  // and log2(e), so that e^(-2 u) is a power of two

__device__ float exp_minus_2u(float x, float square) {
  return exp2_fast(x * fmaf(square, -two_slope_log2e * cubic, -two_slope_log2e));
}
__device__ float gelu_tanh(float x) { return x * reciprocal_fast(exp_minus_2u(x, x * x) + 1.0f); }
__device__ float gelu_tanh_slope(float x) {
  // Beyond 10 the derivative is 0 or 1 within 2^-118, and e^(2 u) stays below 2^126 up to there.
  x = x > 10.0f ? 10.0f : x;
  x = x < -10.0f ? -10.0f : x;
  const float square = x * x, e = exp_minus_2u(x, square);
  const float sigma = reciprocal_fast(e + 1.0f);
  const float slope = e * sigma * sigma;  // sigma (1 - sigma) without cancellation
  return fmaf(slope, x * fmaf(square, 3 * cubic * two_slope, two_slope), sigma);
}

/// Phi(x) and the density of the standard normal distribution times sqrt(2 pi).
struct Normal {
  float below, density;
};
__device__ Normal normal(float x) {
  constexpr float minus_half_log2e = -0.72134752f;
  const float density = exp2_fast(x * x * minus_half_log2e);
  const float t = reciprocal_fast(fmaf(fabsf(x), normal_tail_width, 1.0f));
  float series = normal_tail_coefficient(0);
#pragma unroll
  for (int k = 1; k < normal_tail_terms; ++k) series = fmaf(series, t, normal_tail_coefficient(k));
  const float tail = density * (t * series);
  return {x < 0.0f ? tail : 1.0f - tail, density};
}
__device__ float gelu_erf(float x) { return x * normal(x).below; }
__device__ float gelu_erf_slope(float x) {
  constexpr float peak = 0.39894228f;  // 1 / sqrt(2 pi)
  const Normal phi = normal(x);
  return phi.below + x * (phi.density * peak);
}

template <class T, Gelu form>
struct GeluOp {
  const T* x;
  template <class Count>
  __device__ Eight operator()(std::int64_t i, Count count) const {
    Eight e = load_first(x + i, count);
#pragma unroll
    for (float& v : e.values) v = form == Gelu::tanh ? gelu_tanh(v) : gelu_erf(v);
    return e;
  }
};

template <class T, Gelu form>
struct GeluBackward {
  const T *dy, *x;
  template <class Count>
  __device__ Eight operator()(std::int64_t i, Count count) const {
    const Eight in = load_first(x + i, count);
    Eight e = load_first(dy + i, count);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      e.values[k] *= form == Gelu::tanh ? gelu_tanh_slope(in.values[k]) : gelu_erf_slope(in.values[k]);
    return e;
  }
};

constexpr float log2_e = 1.442695f;

/// The columns of a thread of one of the `pieces` blocks that share a row of F columns.
template <bool packed>
__device__ RowParts<packed> parts_of_piece(unsigned pieces, int F) {
  return {F, int(pieces * blockDim.x), int(blockIdx.x % pieces * blockDim.x + threadIdx.x)};
}

template <class T>
struct Dropout {
  const T* x;
  float p;
  ClockedKey clocked;
  template <class Count>
  __device__ Eight operator()(std::int64_t i, Count count) const {
    Eight e = load_first(x + i, count);
    const DrawKey key = now(clocked);
    const std::uint64_t first = key.first_element + std::uint64_t(i);
    // Draws of 32 bits, four to a Philox call. Where the tensor's first element lies inside a call, eight
    // neighbours need a third one.
    const unsigned inside = unsigned(first % 4);
    std::uint32_t draws[12] = {};
#pragma unroll
    for (int call = 0; call < 3; ++call) {
      if (call == 2 && inside == 0) break;
      const auto group = key.group(first / 4 + std::uint64_t(call));
#pragma unroll
      for (int k = 0; k < 4; ++k) draws[4 * call + k] = group[std::size_t(k)];
    }
    for (unsigned step = 0; step < inside; ++step)  // by one place at a time: registers have no index
#pragma unroll
      for (int k = 0; k < 11; ++k) draws[k] = draws[k + 1];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float uniform = float(draws[k] >> 8) * 0x1p-24f;
      e.values[k] = uniform >= p ? e.values[k] / (1 - p) : 0.0f;
    }
    return e;
  }
};

// SwiGLU: a thread computes eight columns of a row of y, or of dy.
template <class T, bool packed>
__global__ void swiglu_kernel(T* y, const T* x, unsigned pieces, int F) {
  const std::int64_t row = blockIdx.x / pieces;
  const RowParts<packed> parts = parts_of_piece<packed>(pieces, F);
  const Eight a = parts.load(x + row * 2 * F, 0);
  Eight b = parts.load(x + (row * 2 + 1) * F, 0);
#pragma unroll
  for (int k = 0; k < 8; ++k)
    b.values[k] *= a.values[k] * reciprocal_fast(exp2_fast(a.values[k] * -log2_e) + 1.0f);
  parts.store(y + row * F, 0, b);
}

template <class T, bool packed>
__global__ void swiglu_backward_kernel(T* dx, const T* dy, const T* x, unsigned pieces, int F) {
  const std::int64_t row = blockIdx.x / pieces;
  const RowParts<packed> parts = parts_of_piece<packed>(pieces, F);
  Eight a = parts.load(x + row * 2 * F, 0), b = parts.load(x + (row * 2 + 1) * F, 0);
  const Eight gradient = parts.load(dy + row * F, 0);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    // Below -87 both derivatives are 0 within 2^-118, and e^-a stays finite up to there.
    const float v = a.values[k] < -87.0f ? -87.0f : a.values[k];
    const float e = exp2_fast(v * -log2_e), s = reciprocal_fast(e + 1.0f);
    a.values[k] = gradient.values[k] * b.values[k] * (s * fmaf(v, e * s, 1.0f));
    b.values[k] = gradient.values[k] * (v * s);
  }
  parts.store(dx + row * 2 * F, 0, a);
  parts.store(dx + (row * 2 + 1) * F, 0, b);
}

/// Calls launch(T*, packed, extents, pieces): `pieces` blocks for each row of F columns.
void with_pieces(DType dtype, std::int64_t rows, std::int64_t F, const auto& launch_one) {
  const unsigned workers = blocks_for(F, 8);
  const unsigned of_block = std::min(threads, (workers + warp_lanes - 1) / warp_lanes * warp_lanes);
  const unsigned pieces = blocks_for(workers, of_block);
  with_type(dtype, [&]<class T>(T* type) {
    with_packed(F, [&](auto packed) {
      launch_one(type, packed, Launch{blocks_for(rows * pieces, 1), of_block}, pieces);
    });
  });
}

template <class T, class Op>
void launch_pointwise(const char* name, cudaStream_t stream, const Tensor& y, const Op& op) {
  launch(name, stream, {blocks_for(y.count(), 8 * threads), threads}, pointwise_kernel<T, Op>, y.data<T>(),
         y.count(), op);
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Add& call) {
  cuda::with_type(call.y.dtype(), [&]<class T>(T*) {
    cuda::launch_pointwise<T>("add", stream_.get(), call.y, cuda::Add<T>{call.a.data<T>(), call.b.data<T>()});
  });
}

void CudaBackend::compute(const call::Gelu& call) {
  cuda::with_type(call.y.dtype(), [&]<class T>(T*) {
    const T* const in = call.x.data<T>();
    if (call.form == Gelu::tanh)
      cuda::launch_pointwise<T>("gelu_tanh", stream_.get(), call.y, cuda::GeluOp<T, Gelu::tanh>{in});
    else
      cuda::launch_pointwise<T>("gelu_erf", stream_.get(), call.y, cuda::GeluOp<T, Gelu::erf>{in});
  });
}

void CudaBackend::compute(const call::GeluBackward& call) {
  cuda::with_type(call.dx.dtype(), [&]<class T>(T*) {
    const T *const gradient = call.dy.data<T>(), *const in = call.x.data<T>();
    if (call.form == Gelu::tanh)
      cuda::launch_pointwise<T>("gelu_tanh_backward", stream_.get(), call.dx,
                                cuda::GeluBackward<T, Gelu::tanh>{gradient, in});
    else
      cuda::launch_pointwise<T>("gelu_erf_backward", stream_.get(), call.dx,
                                cuda::GeluBackward<T, Gelu::erf>{gradient, in});
  });
}

void CudaBackend::compute(const call::Swiglu& call) {
  const std::int64_t F = call.y.cols();
  cuda::with_pieces(call.y.dtype(), call.y.rows(), F,
                    [&]<class T>(T*, auto packed, const cuda::Launch& how, unsigned pieces) {
                      cuda::launch("swiglu", stream_.get(), how,
                                   cuda::swiglu_kernel<T, decltype(packed)::value>, call.y.data<T>(),
                                   call.x.data<T>(), pieces, F);
                    });
}

void CudaBackend::compute(const call::SwigluBackward& call) {
  const std::int64_t F = call.dy.cols();
  cuda::with_pieces(call.dy.dtype(), call.dy.rows(), F,
                    [&]<class T>(T*, auto packed, const cuda::Launch& how, unsigned pieces) {
                      cuda::launch("swiglu_backward", stream_.get(), how,
                                   cuda::swiglu_backward_kernel<T, decltype(packed)::value>,
                                   call.dx.data<T>(), call.dy.data<T>(), call.x.data<T>(), pieces, F);
                    });
}

void CudaBackend::compute(const call::Dropout& call) {
  cuda::with_type(call.y.dtype(), [&]<class T>(T*) {
    cuda::launch_pointwise<T>("dropout", stream_.get(), call.y,
                              cuda::Dropout<T>{call.x.data<T>(), call.p, clocked(call.key)});
  });
}

}  // namespace mxtape
