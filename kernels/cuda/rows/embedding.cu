#include <algorithm>
#include <bit>

#include "kernels/calls_rows.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows/row_parts.cuh"

namespace mxtape {
namespace cuda {
namespace {

constexpr unsigned threads = 256;
constexpr int warps = int(threads) / warp_lanes;
constexpr int slice = 8 * warp_lanes;  // columns of a warp

template <bool packed>
__device__ RowParts<packed> parts_of_warp(int C) {
  return {C, warp_lanes, lane_id()};
}

// A warp writes a row.
template <class T, bool packed>
__global__ void embedding_kernel(T* y, const float* table, const float* positions, const std::int32_t* tokens,
                                 std::int64_t rows, std::int64_t time, int C) {
  const std::int64_t row = std::int64_t(blockIdx.x) * warps + warp_id();
  if (row >= rows) return;
  const RowParts<packed> parts = parts_of_warp<packed>(C);
  const float* const of_token = table + std::int64_t(tokens[row]) * C;
  const float* const of_position = positions ? positions + row % time * C : nullptr;
#pragma unroll 4
  for (int round = 0; round < parts.rounds(); ++round) {
    Eight e = parts.load(of_token, round);
    if (of_position) {
      const Eight more = parts.load(of_position, round);
#pragma unroll
      for (int k = 0; k < 8; ++k) e.values[k] += more.values[k];
    }
    parts.store(y + row * C, round, e);
  }
}

// --- backward: dy's rows are sorted by token, in pieces, and each token's rows are then added in their order
// by the warp that owns the token and 256 columns: no atomics, and one definition of the sum.

// Keys of a piece: token above, row inside the piece below, so that all differ.
constexpr int piece_bits = 12;
constexpr std::int64_t largest_piece = 1 << piece_bits;
constexpr std::int64_t most_tokens = std::int64_t{1} << (32 - piece_bits);
constexpr std::uint32_t no_row = 0xffffffffu;

/// A token's rows in a piece: places [begin, end) of its sorted rows; none if end is 0.
struct Run {
  std::uint16_t begin, end;
};

// Sorts a piece of tokens by a bitonic network: order [pieces, piece] are the rows, runs [V, pieces], which
// is zero before, where each token's are. `piece` is a power of two; a block has half as many threads, or
// the most.
__global__ void __launch_bounds__(1024)
    sort_tokens_kernel(std::int32_t* order, Run* runs, const std::int32_t* tokens, std::int64_t rows,
                       int piece) {
  __shared__ std::uint32_t keys[largest_piece];
  const std::int64_t first = std::int64_t(blockIdx.x) * piece;
  const int count = rows - first < piece ? int(rows - first) : piece;
  for (int i = int(threadIdx.x); i < piece; i += int(blockDim.x))
    keys[i] = i < count ? std::uint32_t(tokens[first + i]) << piece_bits | std::uint32_t(i) : no_row;
  for (int size = 2; size <= piece; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      block_sync();
      for (int pair = int(threadIdx.x); pair < piece / 2; pair += int(blockDim.x)) {
        const int low = 2 * pair - (pair & (stride - 1)), high = low + stride;
        const std::uint32_t a = keys[low], b = keys[high];
        if ((a > b) == ((low & size) == 0)) keys[low] = b, keys[high] = a;
      }
    }
  block_sync();
  for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) {
    const std::uint32_t token = keys[i] >> piece_bits;
    order[first + i] = std::int32_t(first + std::int64_t(keys[i] & (largest_piece - 1)));
    Run& run = runs[std::int64_t(token) * gridDim.x + blockIdx.x];
    if (i == 0 || keys[i - 1] >> piece_bits != token) run.begin = std::uint16_t(i);
    if (i + 1 == count || keys[i + 1] >> piece_bits != token) run.end = std::uint16_t(i + 1);
  }
}

/// Adds `count` rows of dy to `sum`, row_of(0) first; several are on their way at a time.
template <class T, bool packed, class RowOf>
__device__ void add_rows(Eight& sum, const T* dy, int count, const RowOf& row_of,
                         const RowParts<packed>& parts, int round) {
  using Bits = decltype(parts.load_bits(dy, round));
  constexpr int at_once = 256 / int(sizeof(Bits));  // 64 registers
  const auto row_of_lane = [&](int begin) {
    const int own = begin + lane_id();
    return std::int32_t(row_of(own < count ? own : count - 1));
  };
  std::int32_t coming = row_of_lane(0);
  for (int begin = 0; begin < count; begin += warp_lanes) {
    const std::int32_t rows = coming;
    coming = row_of_lane(begin + warp_lanes);
    const int here = count - begin < warp_lanes ? count - begin : warp_lanes;
#pragma unroll 1
    for (int first = 0; first < here; first += at_once) {
      Bits bits[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const std::int64_t row = warp_from(rows, first + i);
        if (first + i < here) bits[i] = parts.load_bits(dy + row * parts.C, round);
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        if (first + i >= here) break;
        const Eight e = widened(bits[i]);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum.values[k] += e.values[k];
      }
    }
  }
}

// A warp owns a token and `slice` columns: blockIdx.y tells which.
template <class T, bool packed>
__global__ void __launch_bounds__(threads)
    table_gradient_kernel(float* dtable, const T* dy, const std::int32_t* order, const Run* runs,
                          std::int64_t V, int pieces, int piece, int C, Write write) {
  const std::int64_t token = std::int64_t(blockIdx.x) * warps + warp_id();
  if (token >= V) return;
  const RowParts<packed> parts = parts_of_warp<packed>(C);
  const int round = int(blockIdx.y);
  float* const total = dtable + token * C;
  Eight sum{};
  bool found = false;
  for (int first = 0; first < pieces; first += warp_lanes) {
    const int own = first + lane_id();
    const Run run = own < pieces ? runs[token * pieces + own] : Run{};
    const unsigned begin_and_end = run.begin | unsigned(run.end) << 16;
    unsigned present = warp_ballot(run.end != 0);
    if (present && !found && write == Write::accumulate) sum = parts.load(total, round);
    found |= present != 0;
    for (int lane = 0; present; ++lane, present >>= 1) {
      if (!(present & 1)) continue;
      const unsigned of_piece = warp_from(begin_and_end, lane);
      const int begin = int(of_piece & 0xffff), count = int(of_piece >> 16) - begin;
      const std::int32_t* const rows = order + std::int64_t(first + lane) * piece + begin;
      add_rows(
          sum, dy, count, [rows](int i) { return rows[i]; }, parts, round);
    }
  }
  if (found || write == Write::overwrite) parts.store(total, round, sum);
}

// A warp owns a position and `slice` columns. Positions from `time` on have no rows.
template <class T, bool packed>
__global__ void position_gradient_kernel(float* dpositions, const T* dy, int batch, std::int64_t time,
                                         std::int64_t positions, int C, Write write) {
  const std::int64_t position = std::int64_t(blockIdx.x) * warps + warp_id();
  if (position >= positions) return;
  const RowParts<packed> parts = parts_of_warp<packed>(C);
  const int round = int(blockIdx.y);
  float* const total = dpositions + position * C;
  Eight sum{};
  if (write == Write::accumulate) sum = parts.load(total, round);
  if (position < time)
    add_rows(
        sum, dy, batch, [=](int i) { return position + i * time; }, parts, round);
  parts.store(total, round, sum);
}

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Embedding& call) {
  const std::int64_t C = call.y.cols(), rows = call.y.rows();
  cuda::with_type(call.y.dtype(), [&]<class T>(T*) {
    cuda::with_packed(C, [&](auto packed) {
      cuda::launch("embedding", stream_.get(), {cuda::blocks_for(rows, cuda::warps), cuda::threads},
                   cuda::embedding_kernel<T, decltype(packed)::value>, call.y.data<T>(), call.table.data(),
                   call.positions.data(), call.tokens.data<std::int32_t>(), rows, call.tokens.cols(), C);
    });
  });
}

void CudaBackend::compute(const call::EmbeddingBackward& call) {
  const std::int64_t C = call.dy.cols(), rows = call.dy.rows(), V = call.dtable.rows();
  require(V < cuda::most_tokens && rows < INT32_MAX,
          "cuda: embedding_backward: {} rows of {} tokens; want fewer than 2^31 of fewer than {}", rows, V,
          cuda::most_tokens);
  const std::int64_t piece = std::min(cuda::largest_piece, std::int64_t(std::bit_ceil(std::uint64_t(rows))));
  const unsigned pieces = cuda::blocks_for(rows, piece), slices = cuda::blocks_for(C, cuda::slice);
  const Tensor order = empty({rows}, DType::i32), runs = empty({V, pieces}, DType::i32);
  auto* const run_of = static_cast<cuda::Run*>(runs.raw());
  cuda::check(cudaMemsetAsync(runs.raw(), 0, std::size_t(runs.bytes()), stream_.get()), "embedding_backward");
  cuda::launch("sort_tokens", stream_.get(),
               {pieces, unsigned(std::clamp<std::int64_t>(piece / 2, 32, 1024))}, cuda::sort_tokens_kernel,
               order.data<std::int32_t>(), run_of, call.tokens.data<std::int32_t>(), rows, piece);
  cuda::with_type(call.dy.dtype(), [&]<class T>(T*) {
    cuda::with_packed(C, [&](auto packed) {
      cuda::launch("table_gradient", stream_.get(),
                   {dim3(cuda::blocks_for(V, cuda::warps), slices), cuda::threads},
                   cuda::table_gradient_kernel<T, decltype(packed)::value>, call.dtable.data(),
                   call.dy.data<T>(), order.data<std::int32_t>(), run_of, V, pieces, piece, C, call.table);
      if (!call.dpositions) return;
      cuda::launch("position_gradient", stream_.get(),
                   {dim3(cuda::blocks_for(call.dpositions.rows(), cuda::warps), slices), cuda::threads},
                   cuda::position_gradient_kernel<T, decltype(packed)::value>, call.dpositions.data(),
                   call.dy.data<T>(), call.tokens.rows(), call.tokens.cols(), call.dpositions.rows(), C,
                   call.positions);
    });
  });
}

}  // namespace mxtape
