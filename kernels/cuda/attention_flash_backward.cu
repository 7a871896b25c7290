#include <cmath>

#include "kernels/cuda/attention_flash.cuh"

namespace mxtape::cuda {
namespace {

constexpr int tile_rows = 16 * attention_warps;  // what a block is given: each warp has 16 keys or queries

/// Rows of the tiles that it goes over. At width 128 the sums need so many registers that scores of 32 fit.
template <int W>
constexpr int step_rows = W <= 64 ? 64 : 32;

/// Shared memory: two tiles that stay, and two of the other side, twice; lse and delta of the latter's rows.
template <int W>
struct Shared {
  static constexpr int step = step_rows<W>, tiles = W * (2 * tile_rows + 4 * step);
  static constexpr std::size_t bytes = sizeof(bf16) * tiles + sizeof(float) * 4 * step;
  bf16* const base;
  __device__ SharedTile<W> held(int which) const { return {base + W * tile_rows * which}; }
  __device__ SharedTile<W> moving(int which, int stage) const {
    return {base + W * (2 * tile_rows + step * (2 * stage + which))};
  }
  __device__ float* lse(int stage) const { return reinterpret_cast<float*>(base + tiles) + step * stage; }
  __device__ float* delta(int stage) const { return lse(stage) + 2 * step; }
};

struct Inputs {
  const bf16 *qkv, *d_o;
  const float *lse, *delta;
  AttentionShape shape;
  float scale;
};

/// P = e^(scale s - lse); 0 where the query does not see the key.
__device__ float probability(float s, float scale_log2, float lse, bool seen) {
  return seen ? exp2_fast(fmaf(s, scale_log2, -lse * log2_e)) : 0.0f;
}

// A block takes a tile of keys and goes over the queries that see it. Products have keys as rows: S^T = K Q^T
// and dP^T = V dO^T, so that P^T and dS^T are factors of dV = P^T dO and dK = dS^T Q as they are.
template <int W, class T>
__global__ void __launch_bounds__(attention_threads, 2) keys_kernel(T* dqkv, Inputs in) {
  constexpr int step = step_rows<W>;
  const FlashPlace at(in.shape, tile_rows);
  const int time = int(in.shape.time), width = int(in.shape.width), first_key = at.tile * tile_rows;
  const HeadMatrix q = at.part(in.qkv, 0, 3), d_o = at.part(in.d_o, 0, 1);
  const Shared<W> shared{dynamic_shared<bf16>()};
  const SharedTile<W> k_tile = shared.held(0), v_tile = shared.held(1);
  const auto load_queries = [&](int first, int stage) {
    load_tile<W, step>(shared.moving(0, stage), q, first, time, width);
    load_tile<W, step>(shared.moving(1, stage), d_o, first, time, width);
    const int query = first + int(threadIdx.x) % step;
    const float* const from = int(threadIdx.x) < step ? in.lse : in.delta;
    float* const to = int(threadIdx.x) < step ? shared.lse(stage) : shared.delta(stage);
    if (int(threadIdx.x) < 2 * step)
      to[threadIdx.x % step] = query < time ? from[at.head * time + query] : 0.0f;
  };
  load_tile<W, tile_rows>(k_tile, at.part(in.qkv, 1, 3), first_key, time, width);
  load_tile<W, tile_rows>(v_tile, at.part(in.qkv, 2, 3), first_key, time, width);
  load_queries(first_key, 0);
  async_commit();

  const int warp_row = 16 * warp_id(), warp_key = first_key + warp_row;
  Part dk[1][W / 8], dv[1][W / 8];
  clear(dk), clear(dv);
  const float scale_log2 = in.scale * log2_e;

  for (int first_query = first_key, stage = 0; first_query < time; first_query += step, stage ^= 1) {
    async_wait<0>();
    block_sync();
    if (first_query + step < time) load_queries(first_query + step, stage ^ 1);
    async_commit();
    if (first_query + step - 1 < warp_key) continue;  // sees none of this warp's keys
    const SharedTile<W> q_tile = shared.moving(0, stage), d_o_tile = shared.moving(1, stage);
    const float *const lse = shared.lse(stage), *const delta = shared.delta(stage);
    const bool masked = first_query < warp_key + 15 || first_query + step > time;

    Factor narrow[1][step / 16];
    Part p[1][step / 8], ds[1][step / 8];
    clear(p), clear(ds);
    multiply_rows(p, k_tile, warp_row, q_tile);
#pragma unroll
    for (int n = 0; n < step / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = 8 * n + column_in_part(i), query = first_query + column;
        const bool seen = !masked || (query >= warp_key + row_in_part(i) && query < time);
        p[0][n][i] = probability(p[0][n][i], scale_log2, lse[column], seen);
      }
    round_to_factors(narrow, p);
    multiply_columns<W>(dv, narrow, d_o_tile);

    multiply_rows(ds, v_tile, warp_row, d_o_tile);
#pragma unroll
    for (int n = 0; n < step / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) ds[0][n][i] = p[0][n][i] * (ds[0][n][i] - delta[8 * n + column_in_part(i)]);
    round_to_factors(narrow, ds);
    multiply_columns<W>(dk, narrow, q_tile);
  }
  store_rows<W>(dqkv + at.offset(1, 3), at.stride(3), dk[0], in.scale, in.scale, warp_key, time, width);
  store_rows<W>(dqkv + at.offset(2, 3), at.stride(3), dv[0], 1, 1, warp_key, time, width);
}

// A block takes a tile of queries and goes over the keys that they see: dQ = dS K.
template <int W, class T>
__global__ void __launch_bounds__(attention_threads, 2) queries_kernel(T* dqkv, Inputs in) {
  constexpr int step = step_rows<W>;
  const FlashPlace at(in.shape, tile_rows);
  const int time = int(in.shape.time), width = int(in.shape.width);
  const int first_query = (at.tiles - 1 - at.tile) * tile_rows;  // tiles that see the most keys first
  const int end = first_query + tile_rows < time ? first_query + tile_rows : time;
  const HeadMatrix k = at.part(in.qkv, 1, 3), v = at.part(in.qkv, 2, 3);
  const Shared<W> shared{dynamic_shared<bf16>()};
  const SharedTile<W> q_tile = shared.held(0), d_o_tile = shared.held(1);
  const auto load_keys = [&](int first, int stage) {
    load_tile<W, step>(shared.moving(0, stage), k, first, time, width);
    load_tile<W, step>(shared.moving(1, stage), v, first, time, width);
  };
  load_tile<W, tile_rows>(q_tile, at.part(in.qkv, 0, 3), first_query, time, width);
  load_tile<W, tile_rows>(d_o_tile, at.part(in.d_o, 0, 1), first_query, time, width);
  load_keys(0, 0);
  async_commit();

  const int warp_row = 16 * warp_id(), warp_query = first_query + warp_row;
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = warp_query + row_in_part(2 * half);
    lse[half] = query < time ? in.lse[at.head * time + query] : 0.0f;
    delta[half] = query < time ? in.delta[at.head * time + query] : 0.0f;
  }
  Part dq[1][W / 8];
  clear(dq);
  const float scale_log2 = in.scale * log2_e;

  for (int first_key = 0, stage = 0; first_key < end; first_key += step, stage ^= 1) {
    async_wait<0>();
    block_sync();
    if (first_key + step < end) load_keys(first_key + step, stage ^ 1);
    async_commit();
    if (first_key > warp_query + 15) continue;  // not seen by this warp's queries
    const SharedTile<W> k_tile = shared.moving(0, stage), v_tile = shared.moving(1, stage);
    const bool masked = first_key + step - 1 > warp_query;

    Factor narrow[1][step / 16];
    Part s[1][step / 8], ds[1][step / 8];
    clear(s), clear(ds);
    multiply_rows(s, q_tile, warp_row, k_tile);
    multiply_rows(ds, d_o_tile, warp_row, v_tile);
#pragma unroll
    for (int n = 0; n < step / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first_key + 8 * n + column_in_part(i);
        const bool seen = !masked || key <= warp_query + row_in_part(i);
        ds[0][n][i] = probability(s[0][n][i], scale_log2, lse[i / 2], seen) * (ds[0][n][i] - delta[i / 2]);
      }
    round_to_factors(narrow, ds);
    multiply_columns<W>(dq, narrow, k_tile);
  }
  store_rows<W>(dqkv + at.offset(0, 3), at.stride(3), dq[0], in.scale, in.scale, warp_query, time, width);
}

template <int W>
void backward(const AttentionBackward& call, const Inputs& in) {
  const Launch how{flash_blocks(in.shape, tile_rows), attention_threads, Shared<W>::bytes};
  with_type(call.dqkv.dtype(), [&]<class T>(T*) {
    launch("attention_flash_keys", call.stream, how, keys_kernel<W, T>, call.dqkv.data<T>(), in);
    launch("attention_flash_queries", call.stream, how, queries_kernel<W, T>, call.dqkv.data<T>(), in);
  });
}

}  // namespace

void attention_flash_backward(const AttentionBackward& call) {
  const Tensor qkv = as_bf16(call.backend, call.qkv), d_o = as_bf16(call.backend, call.d_o),
               delta = attention_delta(call);
  const Inputs in{qkv.data<bf16>(), d_o.data<bf16>(), call.lse.data(),
                  delta.data(),     call.shape,       1 / std::sqrt(float(call.shape.width))};
  call.shape.width <= 64 ? backward<64>(call, in) : backward<128>(call, in);
}

}  // namespace mxtape::cuda
