#include "kernels/cuda/quantize/quantize_by_definition.h"

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"
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
    for (int mask = warp_lanes / 2; mask > 0; mask /= 2) mine = combine(mine, warp_xor(mine, mask));
    if constexpr (whole_block) {
      __shared__ T of_warp[threads / warp_lanes];
      if (lane_id() == 0) of_warp[warp_id()] = mine;
      block_sync();
      for (const T other : of_warp) mine = combine(mine, other);
      block_sync();  // before the next reduction writes there
    }
    return mine;
  }
};

/// The elements of one block of x, in row-major order.
template <class X>
struct BlockView {
  const X* x;  // its first element
  std::int64_t stride, count;
  std::int64_t width;
  __device__ float operator[](std::int64_t i) const { return value_at(x, i / width * stride + i % width); }
};

template <class T, class X>
__device__ float largest_magnitude(const BlockView<X>& block, float offset) {
  std::uint32_t most = 0;
  const auto larger = [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; };
  for (std::int64_t i = T::member(); i < block.count; i += T::members)
    most = larger(most, bits_of(block[i] - offset) & 0x7fffffffu);
  return float_of(T::reduce(most, larger));
}

template <class T, class X>
__device__ float midpoint(const BlockView<X>& block) {
  float lowest = __builtin_inff(), highest = -__builtin_inff();
  const auto lower = [](float a, float b) { return b < a ? b : a; };
  const auto higher = [](float a, float b) { return b > a ? b : a; };
  for (std::int64_t i = T::member(); i < block.count; i += T::members) {
    lowest = lower(lowest, block[i]);
    highest = higher(highest, block[i]);
  }
  lowest = T::reduce(lowest, lower);
  highest = T::reduce(highest, higher);
  // Of zeros of both signs the first one counts.
  return lowest == highest ? block_midpoint(block[0], block[0]) : block_midpoint(lowest, highest);
}

/// squared_error() of formats/quantize.cpp: a warp works out the errors, every lane adds them in order.
template <class X>
__device__ float squared_error(const BlockRule& rule, const BlockView<X>& block, const BlockScale& s) {
  BlockRule nearest = rule;
  nearest.rounding = Rounding::even;
  float sum = 0;
  for (std::int64_t first = 0; first < block.count; first += warp_lanes) {
    const std::int64_t i = first + lane_id();
    const float scaled = i < block.count ? block[i] * s.inverse : 0.0f;
    const float error = (round_any(nearest, scaled, 0) - scaled) * s.scale;
    for (int lane = 0; lane < warp_lanes; ++lane) {
      const float squared = warp_from(error * error, lane);
      if (first + lane < block.count) sum += squared;
    }
  }
  return sum;
}

__device__ BlockScale scale_with_largest_at(const DefinitionTask& task, float amax, float element_max) {
  return task.scale == ScaleKind::floating ? floating_scale(task.rule, amax, element_max, *task.encode)
                                           : f32_scale(task.rule, amax, element_max);
}

// scale_of_block() of formats/quantize.cpp.
template <class X, bool whole_block>
__global__ void scale_kernel(const X* x, DefinitionTask task) {
  using T = Team<whole_block>;
  const std::int64_t across = (task.cols + task.extent.cols - 1) / task.extent.cols;
  const std::int64_t down = (task.rows + task.extent.rows - 1) / task.extent.rows;
  const std::int64_t index = T::index();
  if (index >= across * down) return;  // the whole team
  const std::int64_t row = index / across * task.extent.rows, col = index % across * task.extent.cols;
  const std::int64_t height = task.rows - row < task.extent.rows ? task.rows - row : task.extent.rows;
  const std::int64_t width = task.cols - col < task.extent.cols ? task.cols - col : task.extent.cols;
  const BlockView<X> block{x + row * task.cols + col, task.cols, height * width, width};

  float amax = largest_magnitude<T>(block, 0), offset = 0;
  if (task.has_offset && amax <= 0x1.fffffep127f) {
    offset = midpoint<T>(block);
    amax = largest_magnitude<T>(block, offset);
  }
  BlockScale s{};
  if (task.scale == ScaleKind::power_of_two) {
    s = power_of_two_scale(task.rule, amax);
  } else {
    s = scale_with_largest_at(task, amax, task.rule.element_max);
    if constexpr (!whole_block) {
      if (task.four_over_six) {
        const BlockScale four = scale_with_largest_at(task, amax, 4);
        if (squared_error(task.rule, block, four) < squared_error(task.rule, block, s)) s = four;
      }
    }
  }
  s.offset = offset;
  if (T::member() == 0) task.scales[index] = s;
}

// A thread has one element.
template <class Y, class X>
__global__ void element_kernel(Y* y, const X* x, DefinitionTask task) {
  const std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= task.rows * task.cols) return;
  BlockScale s{task.rule.alpha, 1};
  if (task.scales) s = task.scales[block_of(task, i)];
  const std::uint32_t draw =
      task.stochastic ? draw_bits(now(task.draws), std::uint64_t(i), task.rule.sr_bits) : 0;
  store_at(y, i, value_of(s, round_any(task.rule, (value_at(x, i) - s.offset) * s.inverse, draw)));
}

}  // namespace

DefinitionTask definition_task(const Quantizer& q, Axis axis, std::int64_t rows, std::int64_t cols) {
  return {rows,
          cols,
          q.scale,
          q.has_offset,
          q.four_over_six,
          q.is_stochastic(),
          block_rule(q),
          block_extent(q.block, rows, cols, axis),
          nullptr,
          nullptr,
          {}};
}

std::int64_t block_count(const DefinitionTask& t) {
  return ((t.rows + t.extent.rows - 1) / t.extent.rows) * ((t.cols + t.extent.cols - 1) / t.extent.cols);
}

void scale_blocks(cudaStream_t stream, const Tensor& x, const DefinitionTask& task) {
  with_type(x.dtype(), [&]<class X>(X*) {
    const bool large = task.extent.rows * task.extent.cols > of_a_warp && !task.four_over_six;
    if (large)
      launch("quantize: scales of large blocks", stream, {blocks_for(block_count(task), 1), threads},
             scale_kernel<X, true>, x.data<X>(), task);
    else
      launch("quantize: scales", stream, {blocks_for(block_count(task), threads / warp_lanes), threads},
             scale_kernel<X, false>, x.data<X>(), task);
  });
}

void quantize_by_definition(cudaStream_t stream, const Tensor& y, const Tensor& x,
                            const DefinitionTask& task) {
  if (task.scales) scale_blocks(stream, x, task);
  with_type(x.dtype(), [&]<class X>(X*) {
    with_type(y.dtype(), [&]<class Y>(Y*) {
      launch("quantize: elements", stream, {blocks_for(x.count(), threads), threads}, element_kernel<Y, X>,
             y.data<Y>(), x.data<X>(), task);
    });
  });
}

}  // namespace mxtape::cuda
