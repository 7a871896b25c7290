#include "kernels/cuda/quantize/tensor_scale.h"

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

namespace mxtape::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr std::int64_t amax_part = 1 << 14;  // parts are cut by size only

/// The largest of all threads' numbers. Magnitudes order as integers.
__device__ inline std::uint32_t largest_of_block(std::uint32_t mine) {
  return block_fold<int(threads)>(mine, [](std::uint32_t a, std::uint32_t b) { return b > a ? b : a; });
}

// A block has one part; a thread takes eight neighbours at a time.
template <class X>
__global__ void largest_kernel(std::int32_t* parts, const X* x, std::int64_t count, bool aligned) {
  const std::int64_t begin = std::int64_t(blockIdx.x) * amax_part;
  std::uint32_t most = 0;
  for (std::int64_t i = begin + 8 * threadIdx.x; i < begin + amax_part && i < count; i += 8 * threads) {
    Eight e{};
    if (aligned && i + 8 <= count) {
      e = load_eight(x + i);
    } else {
      for (int k = 0; k < 8; ++k) e.values[k] = i + k < count ? value_at(x, i + k) : 0.0f;
    }
    for (const float v : e.values) {
      const std::uint32_t magnitude = bits_of(v) & 0x7fffffffu;
      most = magnitude > most ? magnitude : most;
    }
  }
  most = largest_of_block(most);
  if (threadIdx.x == 0) parts[blockIdx.x] = std::int32_t(most);
}

// One block, one number.
__global__ void tensor_scale_kernel(float* encode, float* multiplier, const std::int32_t* parts,
                                    std::int64_t count, BlockRule rule) {
  std::uint32_t most = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += threads) {
    const auto part = std::uint32_t(parts[i]);
    most = part > most ? part : most;
  }
  most = largest_of_block(most);
  if (threadIdx.x != 0) return;
  const float scale = tensor_encode_scale(rule, float_of(most));
  *encode = scale;
  if (multiplier) *multiplier = 1 / scale / rule.alpha;
}

}  // namespace

Tensor largest_of_parts(Backend& backend, cudaStream_t stream, const Tensor& x) {
  const unsigned count = blocks_for(x.count(), amax_part);
  const Tensor parts = backend.empty({count}, DType::i32);
  const bool aligned = reinterpret_cast<std::uintptr_t>(x.raw()) % 16 == 0;
  with_type(x.dtype(), [&]<class X>(X*) {
    launch("quantize: amax", stream, {count, threads}, largest_kernel<X>, parts.data<std::int32_t>(),
           x.data<X>(), x.count(), aligned);
  });
  return parts;
}

Tensor tensor_scale(Backend& backend, cudaStream_t stream, const Tensor& multiplier, const Tensor& parts,
                    const BlockRule& rule) {
  const Tensor encode = backend.empty({1});
  launch("quantize: tensor scale", stream, {1, threads}, tensor_scale_kernel, encode.data(),
         multiplier.data(), parts.data<std::int32_t>(), parts.count(), rule);
  return encode;
}

float multiplier_of_zeros(const Quantizer& q) {
  return 1 / (q.has_tensor_scale() ? tensor_encode_scale(block_rule(q), 0) : 1) / q.alpha;
}

}  // namespace mxtape::cuda
