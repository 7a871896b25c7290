#include "kernels/cuda/attention/attention_flash.cuh"

namespace mxtape::cuda {
namespace {

// A block takes one tile of queries of one head, and goes over the keys that they see; its warps share the
// keys and divide the queries. The next tiles of K and V are on their way while one is worked on.
template <int W, class T>
__global__ void __launch_bounds__(attention_threads, 2) flash_kernel(T* o, float* lse, ForwardInputs in) {
  using Tiles = ForwardTiles<W>;
  constexpr int R = Tiles::query_units, queries = Tiles::queries, keys = Tiles::keys;
  const FlashPlace at(in.shape, queries);
  const int time = int(in.shape.time), width = int(in.shape.width);
  // Tiles that see the most keys come first.
  const int first_query = (at.tiles - 1 - at.tile) * queries;
  const int end = first_query + queries < time ? first_query + queries : time;
  const HeadMatrix q = query_matrix(in.q, in.shape, at.head), k = key_matrix(in.k, in.shape, at.head),
                   v = key_matrix(in.v, in.shape, at.head);
  const AttentionPart out = in.shape.o();

  bf16* const shared = dynamic_shared<bf16>();
  const SharedTile<W> q_tile{shared};
  const auto k_tile = [&](int stage) { return SharedTile<W>{shared + W * (queries + 2 * keys * stage)}; };
  const auto v_tile = [&](int stage) { return SharedTile<W>{k_tile(stage).base + W * keys}; };
  const auto load_keys = [&](int first, int stage) {
    load_tile<W, keys>(k_tile(stage), k, first, time, width);
    load_tile<W, keys>(v_tile(stage), v, first, time, width);
  };
  load_tile<W, queries>(q_tile, q, first_query, time, width);
  load_keys(0, 0);
  async_commit();

  const int warp_row = 16 * R * warp_id(), warp_query = first_query + warp_row;
  Part o_parts[R][W / 8];
  Running running[R];
  clear(o_parts);
  const float scale_log2 = in.scale * log2_e;

  for (int first_key = 0, stage = 0; first_key < end; first_key += keys, stage ^= 1) {
    async_wait<0>();
    block_sync();  // the tile is there, and all are done with the one before
    if (first_key + keys < end) load_keys(first_key + keys, stage ^ 1);
    async_commit();
    if (first_key > warp_query + 16 * R - 1) continue;  // none of this warp's queries sees it
    Part s[R][keys / 8];
    clear(s);
    multiply_rows(s, q_tile, warp_row, k_tile(stage));
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (first_key + keys - 1 > warp_query + 16 * r) mask(s[r], warp_query + 16 * r, first_key);
      float corrections[2];
      online_softmax(s[r], running[r], corrections, scale_log2);
#pragma unroll
      for (int n = 0; n < W / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) o_parts[r][n][i] *= corrections[i / 2];
    }
    Factor p[R][keys / 16];
    round_to_factors(p, s);
    multiply_columns<W>(o_parts, p, v_tile(stage));
  }

#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int first = warp_query + 16 * r;
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum(running[r].sum[half]);
      factor[half] = 1 / sum;
      const int query = first + row_in_part(2 * half);
      if (query < time && lane_id() % 4 == 0)
        lse[at.head * time + query] = running[r].top[half] * in.scale + logf(sum);
    }
    store_rows<W>(o + out.offset(at.head), out.row, o_parts[r], factor[0], factor[1], first, time, width);
  }
}

template <int W>
void forward(const AttentionForward& call, const Tensor& qkv) {
  using Tiles = ForwardTiles<W>;
  const AttentionShape& s = call.shape;
  const ForwardInputs in{heads_of(qkv, s.q()), heads_of(qkv, s.k()), heads_of(qkv, s.v()), s,
                         1 / std::sqrt(float(s.width))};
  with_type(call.o.dtype(), [&]<class T>(T*) {
    launch("attention_flash", call.stream,
           {flash_blocks(s, s.heads, Tiles::queries), attention_threads, Tiles::shared_bytes},
           flash_kernel<W, T>, call.o.data<T>(), call.lse.data(), in);
  });
}

}  // namespace

Tensor as_bf16(Backend& backend, const Tensor& x) {
  if (x.dtype() == DType::bf16) return x;
  const Tensor y = backend.empty(x.shape(), DType::bf16);
  backend.copy(y, x);
  return y;
}

void attention_flash(const AttentionForward& call) {
  const Tensor qkv = as_bf16(call.backend, call.qkv);
  call.shape.width <= 64 ? forward<64>(call, qkv) : forward<128>(call, qkv);
}

}  // namespace mxtape::cuda
