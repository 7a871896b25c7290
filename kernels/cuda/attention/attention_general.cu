#include "kernels/cuda/attention/attention_general.cuh"
#include "kernels/cuda/attention/attention_rows.cuh"

namespace mxtape::cuda {
namespace {

// A block computes 64 columns of O for 64 queries of a head, and goes over the keys that they see. Wider
// heads have several blocks, which compute the same scores.
template <class T, bool narrow>
__global__ void __launch_bounds__(general_threads)
    general_kernel(T* o, float* lse, const T* qkv, AttentionShape shape, float scale) {
  GeneralShared& shared = *dynamic_shared<GeneralShared>();
  const GeneralPlace at(shape);
  const GeneralMatrix<T> q = at.part(qkv, 0, 3), k = at.part(qkv, 1, 3), v = at.part(qkv, 2, 3);
  const int time = int(shape.time);
  const int end = at.first + general_rows < time ? at.first + general_rows : time;
  float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, sum[4] = {};
  ScoreTile sums;
  for (int first_key = 0; first_key < end; first_key += general_rows) {
    ScoreTile s = general_dots<narrow>(shared, q, at.first, k, first_key);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int query = at.first + general_y() + 16 * r;
      float new_top = top[r];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const bool seen = first_key + general_x() + 16 * c <= query;
        s.v[r][c] = seen ? s.v[r][c] * scale : -INFINITY;
        new_top = s.v[r][c] > new_top ? s.v[r][c] : new_top;
      }
      new_top = largest_of_row(new_top);  // finite: every query sees key 0
      const float correction = expf(top[r] - new_top);
      top[r] = new_top;
      sum[r] *= correction;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        s.v[r][c] = expf(s.v[r][c] - new_top);
        sum[r] += s.v[r][c];
        sums.v[r][c] *= correction;
      }
    }
    general_add_product<narrow>(shared, sums, s, v, first_key, at.first_column);
  }
  float factors[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float total = sum_of_row(sum[r]);
    factors[r] = 1 / total;
    const int query = at.first + general_y() + 16 * r;
    if (query < time && at.first_column == 0 && general_x() == 0)
      lse[at.head * time + query] = top[r] + logf(total);
  }
  at.store(o, 0, 1, sums, factors);
}

template <class T>
struct Gradients {
  T* dqkv;
  const T *d_o, *qkv;
  const float *lse, *delta;
  AttentionShape shape;
  float scale;
};

// P and dS of a tile of 64 rows and columns: keys and queries if `turned`, else queries and keys.
template <bool turned>
__device__ void probabilities(ScoreTile& p, ScoreTile& ds, const float* lse, const float* delta, int first,
                              int first_column, int time, float scale) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = first + general_y() + 16 * r, column = first_column + general_x() + 16 * c;
      const int query = turned ? column : row, key = turned ? row : column;
      const bool seen = key <= query && query < time;
      p.v[r][c] = seen ? expf(p.v[r][c] * scale - lse[query]) : 0.0f;
      ds.v[r][c] = seen ? p.v[r][c] * (ds.v[r][c] - delta[query]) * scale : 0.0f;
    }
}

// 64 columns of dK and dV for 64 keys, over the queries that see them.
template <class T, bool narrow>
__global__ void __launch_bounds__(general_threads) general_keys_kernel(Gradients<T> g) {
  GeneralShared& shared = *dynamic_shared<GeneralShared>();
  const GeneralPlace at(g.shape);
  const GeneralMatrix<T> q = at.part(g.qkv, 0, 3), k = at.part(g.qkv, 1, 3), v = at.part(g.qkv, 2, 3),
                         d_o = at.part(g.d_o, 0, 1);
  const int time = int(g.shape.time);
  ScoreTile dk, dv;
  for (int first_query = at.first; first_query < time; first_query += general_rows) {
    ScoreTile p = general_dots<narrow>(shared, k, at.first, q, first_query);
    ScoreTile ds = general_dots<narrow>(shared, v, at.first, d_o, first_query);
    probabilities<true>(p, ds, g.lse + at.head * time, g.delta + at.head * time, at.first, first_query, time,
                        g.scale);
    general_add_product<narrow>(shared, dv, p, d_o, first_query, at.first_column);
    general_add_product<narrow>(shared, dk, ds, q, first_query, at.first_column);
  }
  at.store(g.dqkv, 1, 3, dk, {1, 1, 1, 1});
  at.store(g.dqkv, 2, 3, dv, {1, 1, 1, 1});
}

// 64 columns of dQ for 64 queries, over the keys that they see.
template <class T, bool narrow>
__global__ void __launch_bounds__(general_threads) general_queries_kernel(Gradients<T> g) {
  GeneralShared& shared = *dynamic_shared<GeneralShared>();
  const GeneralPlace at(g.shape);
  const GeneralMatrix<T> q = at.part(g.qkv, 0, 3), k = at.part(g.qkv, 1, 3), v = at.part(g.qkv, 2, 3),
                         d_o = at.part(g.d_o, 0, 1);
  const int time = int(g.shape.time);
  const int end = at.first + general_rows < time ? at.first + general_rows : time;
  ScoreTile dq;
  for (int first_key = 0; first_key < end; first_key += general_rows) {
    ScoreTile p = general_dots<narrow>(shared, q, at.first, k, first_key);
    ScoreTile ds = general_dots<narrow>(shared, d_o, at.first, v, first_key);
    probabilities<false>(p, ds, g.lse + at.head * time, g.delta + at.head * time, at.first, first_key, time,
                         g.scale);
    general_add_product<narrow>(shared, dq, ds, k, first_key, at.first_column);
  }
  at.store(g.dqkv, 0, 3, dq, {1, 1, 1, 1});
}

}  // namespace

void attention_general(const AttentionForward& call, DType operands) {
  with_arithmetic(call.qkv.dtype(), operands, [&]<class T, bool narrow>(T*, std::bool_constant<narrow>) {
    launch("attention_general", call.stream, general_launch(call.shape), general_kernel<T, narrow>,
           call.o.data<T>(), call.lse.data(), call.qkv.data<T>(), call.shape,
           1 / std::sqrt(float(call.shape.width)));
  });
}

void attention_general_backward(const AttentionBackward& call, DType operands) {
  const Tensor delta = attention_delta(call);
  with_arithmetic(call.qkv.dtype(), operands, [&]<class T, bool narrow>(T*, std::bool_constant<narrow>) {
    const Gradients<T> g{call.dqkv.data<T>(),
                         call.d_o.data<T>(),
                         call.qkv.data<T>(),
                         call.lse.data(),
                         delta.data(),
                         call.shape,
                         1 / std::sqrt(float(call.shape.width))};
    launch("attention_general_keys", call.stream, general_launch(call.shape), general_keys_kernel<T, narrow>,
           g);
    launch("attention_general_queries", call.stream, general_launch(call.shape),
           general_queries_kernel<T, narrow>, g);
  });
}

}  // namespace mxtape::cuda
