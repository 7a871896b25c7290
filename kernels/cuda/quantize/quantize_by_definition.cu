#include "kernels/cuda/quantize/quantize_by_definition.h"

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantize/decide_by_average.cuh"
#include "kernels/cuda/quantize/round.h"

namespace mxtape::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr std::int64_t of_a_warp = 4096;  // elements; larger blocks have a thread block each

/// The threads that work out one scale: a warp, or all of a thread block.
template <bool whole_block>
struct Team {
  __device__ static std::int64_t index() {
    return whole_block ? std::int64_t(blockIdx.x)
                       : std::int64_t(blockIdx.x) * (threads / warp_lanes) + warp_id();
  }
  __device__ static int member() { return whole_block ? int(threadIdx.x) : lane_id(); }
  static constexpr int members = whole_block ? int(threads) : warp_lanes;

  /// `combine` over all members, the same in all of them.
  template <class T, class Combine>
  __device__ static T reduce(T mine, const Combine& combine) {
    if constexpr (whole_block)
      return block_fold<members>(mine, combine);
    else
      return warp_fold(mine, combine);
  }
};

/// A block of x, as scale_of_block() takes it.
template <class X, bool whole_block>
struct BlockOfTeam {
  using T = Team<whole_block>;
  const X* x;  // its first element
  std::int64_t stride, elements;
  std::int64_t width;

  __device__ float at(std::int64_t i) const { return value_at(x, i / width * stride + i % width); }
  template <class Number, class Of, class Combine>
  __device__ Number fold_here(Number mine, const Of& of, const Combine& combine) const {
    for (std::int64_t i = T::member(); i < elements; i += T::members) mine = combine(mine, of(at(i)));
    return T::reduce(mine, combine);
  }
  /// A warp works out the terms, every lane adds them in order.
  template <class Of>
  __device__ float sum_here(const Of& of) const {
    float sum = 0;
    for (std::int64_t first = 0; first < elements; first += warp_lanes) {
      const std::int64_t i = first + lane_id();
      const float mine = i < elements ? of(at(i)) : 0.0f;
      for (int lane = 0; lane < warp_lanes; ++lane) {
        const float term = warp_from(mine, lane);
        if (first + lane < elements) sum += term;
      }
    }
    return sum;
  }

  // For the host in name only: scale_of_block() is for both, and nvcc wants all that it calls to be.
#pragma nv_exec_check_disable
  MXT_HD float first() const { return at(0); }
  MXT_HD std::int64_t count() const { return elements; }
#pragma nv_exec_check_disable
  template <class Number, class Of, class Combine>
  MXT_HD Number fold(Number start, const Of& of, const Combine& combine) const {
    return fold_here(start, of, combine);
  }
#pragma nv_exec_check_disable
  template <class Of>
  MXT_HD float sum(const Of& of) const {
    return sum_here(of);
  }
};

template <class X, bool whole_block>
__global__ void scale_kernel(const X* x, DefinitionTask task) {
  using T = Team<whole_block>;
  const std::int64_t across = (task.cols + task.extent.cols - 1) / task.extent.cols;
  const std::int64_t down = (task.rows + task.extent.rows - 1) / task.extent.rows;
  const std::int64_t index = T::index();
  if (index >= across * down) return;  // the whole team
  const std::int64_t row = index / across * task.extent.rows, col = index % across * task.extent.cols;
  // Of extents `size`, the block that holds (row, col).
  const auto around = [&](BlockExtent size) -> BlockOfTeam<X, whole_block> {
    const std::int64_t top = row / size.rows * size.rows, left = col / size.cols * size.cols;
    const std::int64_t height = task.rows - top < size.rows ? task.rows - top : size.rows;
    const std::int64_t width = task.cols - left < size.cols ? task.cols - left : size.cols;
    return {x + top * task.cols + left, task.cols, height * width, width};
  };
  float encode = task.encode ? *task.encode : 1;
  if (task.rule.group_scale)
    encode = tensor_encode_scale(task.rule, largest_magnitude(around(task.group), 0));
  const auto draw = [&] {
    return draw_bits(now(task.draws), std::uint64_t(row * task.cols + col), task.rule.sr_bits);
  };
  const BlockScale s = scale_of_block(task.rule, encode, around(task.extent), draw);
  if (T::member() == 0) task.scales[index] = s;
}

// A thread has one element.
template <class Y, class X>
__global__ void element_kernel(Y* y, const X* x, DefinitionTask task) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= task.rows * task.cols) return;
  BlockScale s{task.rule.alpha, 1};
  if (task.scales) s = task.scales[block_of(task, i)];
  const float value = value_at(x, i);
  store_at(y, i, value_of(s, round_in_block(task.rule, s, value, decision(task, i, value))));
}

}  // namespace

DefinitionTask definition_task(const Quantizer& q, Axis axis, std::int64_t rows, std::int64_t cols) {
  return {rows, cols, block_rule(q), block_extent(q.block, rows, cols, axis),
          group_extent(q, rows, cols, axis)};
}

std::int64_t block_count(const DefinitionTask& t) {
  return ((t.rows + t.extent.rows - 1) / t.extent.rows) * ((t.cols + t.extent.cols - 1) / t.extent.cols);
}

Tensor scale_blocks(Backend& backend, cudaStream_t stream, const Tensor& x, DefinitionTask& task) {
  const std::int64_t blocks = block_count(task);
  if (task.rule.scale == ScaleKind::none || blocks == 0) return {};
  constexpr std::int64_t floats = sizeof(BlockScale) / sizeof(float);
  const Tensor scales = backend.empty({blocks * floats});
  task.scales = static_cast<BlockScale*>(scales.raw());
  with_type(x.dtype(), [&]<class X>(X*) {
    const bool large = task.extent.rows * task.extent.cols > of_a_warp && !task.rule.adds_up;
    if (large)
      launch("quantize: scales of large blocks", stream, {blocks_for(blocks, 1), threads},
             scale_kernel<X, true>, x.data<X>(), task);
    else
      launch("quantize: scales", stream, {blocks_for(blocks, threads / warp_lanes), threads},
             scale_kernel<X, false>, x.data<X>(), task);
  });
  return scales;
}

void quantize_by_definition(cudaStream_t stream, const Tensor& y, const Tensor& x,
                            const DefinitionTask& task) {
  with_type(x.dtype(), [&]<class X>(X*) {
    with_type(y.dtype(), [&]<class Y>(Y*) {
      launch("quantize: elements", stream, {blocks_for(x.count(), threads), threads}, element_kernel<Y, X>,
             y.data<Y>(), x.data<X>(), task);
    });
  });
}

}  // namespace mxtape::cuda
