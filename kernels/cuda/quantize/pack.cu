#include "formats/codec/block_codec.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantize/decide_by_average.cuh"
#include "kernels/cuda/quantize/tensor_scale.h"

// Packing is for storage and transport, not for a step's inner loops: there is one way for every quantizer
// and no kernel for tiles. An element of b bits in blocks of n with scales of s bits moves the source twice
// (scales, then elements), b / 8 + s / (8 n) bytes out and 44 / n of scratch; to unpack it, these bytes in
// and the value out.
namespace mxtape {
namespace cuda {
namespace {

constexpr unsigned threads = 256;
constexpr int of_thread = 8;         // codes of b bits are b bytes: no two threads write the same one
constexpr std::uint32_t none = ~0u;  // as i32: -1

/// The least of all threads' numbers.
__device__ inline std::uint32_t least_of_block(std::uint32_t mine) {
  return block_fold<int(threads)>(mine, [](std::uint32_t a, std::uint32_t b) { return b < a ? b : a; });
}

struct PackTask {
  DefinitionTask of;
  Quantizer quantizer;
  std::uint8_t *codes, *scales, *offsets;
  std::int32_t* first_uncoded;  // of each thread block
};

// A thread has one block.
__global__ void pack_scales_kernel(PackTask task, std::int64_t blocks) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= blocks) return;
  const BlockScale s = task.of.scales[i];
  store_scale(task.scales, i, task.quantizer, s);
  if (!task.offsets) return;
  const std::uint16_t offset = encode_offset(task.quantizer, s);
  task.offsets[2 * i] = std::uint8_t(offset);
  task.offsets[2 * i + 1] = std::uint8_t(offset >> 8);
}

// A thread has eight neighbours.
template <class X>
__global__ void pack_codes_kernel(const X* x, PackTask task) {
  const Quantizer& q = task.quantizer;
  const int bits = q.element.bits();
  const std::int64_t count = task.of.rows * task.of.cols;
  const std::int64_t group = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  CodeWriter writer{task.codes + group * bits, bits};
  std::uint32_t first_uncoded = none;
  for (std::int64_t i = group * of_thread; i < (group + 1) * of_thread && i < count; ++i) {
    const BlockScale s = task.of.scales ? task.of.scales[block_of(task.of, i)] : BlockScale{q.alpha, 1};
    const float value = value_at(x, i);
    const float rounded = round_in_block(task.of.rule, s, value, decision(task.of, i, value));
    writer.put(code_of(q, s, rounded, value));
    if (first_uncoded == none && lacks_a_code(q, s.scale, rounded))
      first_uncoded = i < 0x7fffffff ? std::uint32_t(i) : 0x7fffffffu;
  }
  writer.finish();
  first_uncoded = least_of_block(first_uncoded);
  if (threadIdx.x == 0) task.first_uncoded[blockIdx.x] = std::int32_t(first_uncoded);
}

// One block, one number.
__global__ void first_uncoded_kernel(std::int32_t* first, const std::int32_t* parts, std::int64_t count) {
  std::uint32_t least = none;
  for (std::int64_t i = threadIdx.x; i < count; i += threads) {
    const auto part = std::uint32_t(parts[i]);
    least = part < least ? part : least;
  }
  least = least_of_block(least);
  if (threadIdx.x == 0) *first = std::int32_t(least);
}

// A thread has eight neighbours.
template <class Y>
__global__ void unpack_kernel(Y* y, DefinitionTask task, Quantizer q, const std::uint8_t* codes,
                              const std::uint8_t* scales, const std::uint8_t* offsets) {
  const int bits = q.element.bits();
  const std::int64_t group = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  CodeReader reader{codes + group * bits, bits};
  for (std::int64_t i = group * of_thread; i < (group + 1) * of_thread && i < task.rows * task.cols; ++i) {
    BlockScale s{0, 1};
    if (scales) {
      const std::int64_t block = block_of(task, i);
      s = load_scale(scales, block, q);
      if (offsets) decode_offset(s, q, std::uint16_t(offsets[2 * block] | offsets[2 * block + 1] << 8));
    }
    store_at(y, i, value_of_code(q, s, reader.take()));
  }
}

}  // namespace
}  // namespace cuda

void CudaBackend::pack(const Rounded& y, const Tensor& x, const Tensor& first_uncoded) {
  const Quantizer& q = y.by.quantizer;
  cuda::PackTask task{cuda::definition_task(q, y.by.axis, y.rows(), y.cols()),
                      q,
                      y.elements.data<std::uint8_t>(),
                      y.scales.data<std::uint8_t>(),
                      y.offsets.data<std::uint8_t>(),
                      nullptr};
  task.of.draws = clocked(y.by.draws);

  Tensor encode;
  if (q.has_tensor_scale() && x.count() > 0) {
    const Tensor parts = cuda::largest_of_parts(*this, stream_.get(), x);
    encode = cuda::tensor_scale(*this, stream_.get(), y.multiplier, parts, task.of.rule);
    task.of.encode = encode.data();
  } else if (y.multiplier) {
    fill(y.multiplier, cuda::multiplier_of_zeros(q));
  }

  const Tensor scales = cuda::scale_blocks(*this, stream_.get(), x, task.of);
  if (scales) {
    const std::int64_t blocks = cuda::block_count(task.of);
    cuda::launch("pack: scales", stream_.get(), {cuda::blocks_for(blocks, cuda::threads), cuda::threads},
                 cuda::pack_scales_kernel, task, blocks);
  }

  const unsigned grid = cuda::blocks_for(x.count(), cuda::threads * cuda::of_thread);
  const Tensor parts = empty({grid}, DType::i32);
  task.first_uncoded = parts.data<std::int32_t>();
  cuda::with_type(x.dtype(), [&]<class X>(X*) {
    cuda::launch("pack: codes", stream_.get(), {grid, cuda::threads}, cuda::pack_codes_kernel<X>, x.data<X>(),
                 task);
  });
  if (first_uncoded)
    cuda::launch("pack: first without a code", stream_.get(), {1, cuda::threads}, cuda::first_uncoded_kernel,
                 first_uncoded.data<std::int32_t>(), parts.data<std::int32_t>(), std::int64_t{grid});
}

void CudaBackend::unpack(const Tensor& y, const Rounded& x) {
  const cuda::DefinitionTask task = cuda::definition_task(x.by.quantizer, x.by.axis, x.rows(), x.cols());
  cuda::with_type(y.dtype(), [&]<class Y>(Y*) {
    cuda::launch("unpack", stream_.get(),
                 {cuda::blocks_for(y.count(), cuda::threads * cuda::of_thread), cuda::threads},
                 cuda::unpack_kernel<Y>, y.data<Y>(), task, x.by.quantizer, x.elements.data<std::uint8_t>(),
                 x.scales.data<std::uint8_t>(), x.offsets.data<std::uint8_t>());
  });
}

}  // namespace mxtape
