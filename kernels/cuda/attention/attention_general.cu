#include "kernels/cuda/attention/attention_general.cuh"
#include "kernels/cuda/attention/attention_rows.cuh"

namespace mxtape::cuda {
namespace {

/// Q, K and V where they lie, of the heads of a block.
template <class T>
struct GeneralInputs {
  const T *q, *kv;
  SeenKeys keys;
  float scale;
  __device__ GeneralMatrix<T> queries(std::int64_t head) const {
    return GeneralPlace::matrix(q, keys.shape.q(), head);
  }
  __device__ GeneralMatrix<T> k(std::int64_t key_head) const {
    return GeneralPlace::matrix(kv, keys.shape.k(), key_head);
  }
  __device__ GeneralMatrix<T> v(std::int64_t key_head) const {
    return GeneralPlace::matrix(kv, keys.shape.v(), key_head);
  }
  /// Keys that the queries of a tile see at most.
  __device__ int end_of_keys(int first_query, int length) const {
    const int past = first_query + general_rows, time = int(keys.shape.time);
    return int(keys.shape.seen((past < time ? past : time) - 1, length));
  }
};

// A block computes 64 columns of O for 64 queries of a head, and goes over the keys that they see. Wider
// heads have several blocks, which compute the same scores.
template <class T, bool narrow>
__global__ void __launch_bounds__(general_threads) general_kernel(T* o, float* lse, GeneralInputs<T> in) {
  GeneralShared& shared = *dynamic_shared<GeneralShared>();
  const AttentionShape& shape = in.keys.shape;
  const GeneralPlace at(shape.o());
  const GeneralMatrix<T> q = in.queries(at.head), k = in.k(shape.key_head(at.head)),
                         v = in.v(shape.key_head(at.head));
  const int time = int(shape.time), length = int(in.keys.length(at.head));
  const int end = in.end_of_keys(at.first, length);
  float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, sum[4] = {};
  ScoreTile sums;
  for (int first_key = 0; first_key < end; first_key += general_rows) {
    ScoreTile s = general_dots<narrow>(shared, q, at.first, k, first_key);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int seen = int(shape.seen(at.first + general_y() + 16 * r, length));
      float new_top = top[r];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        s.v[r][c] = first_key + general_x() + 16 * c < seen ? s.v[r][c] * in.scale : -INFINITY;
        new_top = s.v[r][c] > new_top ? s.v[r][c] : new_top;
      }
      new_top = warp_max<row_lanes>(new_top);  // finite: every query sees key 0
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
    const float total = warp_sum<row_lanes>(sum[r]);
    factors[r] = 1 / total;
    const int query = at.first + general_y() + 16 * r;
    if (query < time && at.first_column == 0 && general_x() == 0)
      lse[at.head * time + query] = top[r] + logf(total);
  }
  at.store(o, shape.o(), sums, factors);
}

template <class T>
struct Gradients {
  GeneralInputs<T> in;
  T *dq, *dkv;
  const T* d_o;
  const float *lse, *delta;
};

// P and dS of a tile of 64 rows and columns: keys and queries if `turned`, else queries and keys.
template <bool turned, class T>
__device__ void probabilities(ScoreTile& p, ScoreTile& ds, const Gradients<T>& g, std::int64_t head,
                              int first, int first_column, int length) {
  const int time = int(g.in.keys.shape.time);
  const float *const lse = g.lse + head * time, *const delta = g.delta + head * time, scale = g.in.scale;
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = first + general_y() + 16 * r, column = first_column + general_x() + 16 * c;
      const int query = turned ? column : row, key = turned ? row : column;
      const bool seen = query < time && key < g.in.keys.shape.seen(query, length);
      p.v[r][c] = seen ? expf(p.v[r][c] * scale - lse[query]) : 0.0f;
      ds.v[r][c] = seen ? p.v[r][c] * (ds.v[r][c] - delta[query]) * scale : 0.0f;
    }
}

// 64 columns of dK and dV for 64 keys, over the queries that see them, of one head after the other.
template <class T, bool narrow>
__global__ void __launch_bounds__(general_threads) general_keys_kernel(Gradients<T> g) {
  GeneralShared& shared = *dynamic_shared<GeneralShared>();
  const AttentionShape& shape = g.in.keys.shape;
  const GeneralPlace at(shape.k());
  const GeneralMatrix<T> k = g.in.k(at.head), v = g.in.v(at.head);
  const int time = int(shape.time);
  std::int64_t head = at.head * shape.group();
  const int length = int(g.in.keys.length(head)), last = at.first - int(shape.first_position);
  const int from = shape.mask == AttentionMask::none || last < 0 ? 0 : last / general_rows * general_rows;
  ScoreTile dk, dv;
  for (const std::int64_t end = head + shape.group(); head < end && at.first < length; ++head) {
    const GeneralMatrix<T> q = g.in.queries(head), d_o = GeneralPlace::matrix(g.d_o, shape.o(), head);
    for (int first_query = from; first_query < time; first_query += general_rows) {
      ScoreTile p = general_dots<narrow>(shared, k, at.first, q, first_query);
      ScoreTile ds = general_dots<narrow>(shared, v, at.first, d_o, first_query);
      probabilities<true>(p, ds, g, head, at.first, first_query, length);
      general_add_product<narrow>(shared, dv, p, d_o, first_query, at.first_column);
      general_add_product<narrow>(shared, dk, ds, q, first_query, at.first_column);
    }
  }
  at.store(g.dkv, shape.k(), dk, {1, 1, 1, 1});
  at.store(g.dkv, shape.v(), dv, {1, 1, 1, 1});
}

// 64 columns of dQ for 64 queries, over the keys that they see.
template <class T, bool narrow>
__global__ void __launch_bounds__(general_threads) general_queries_kernel(Gradients<T> g) {
  GeneralShared& shared = *dynamic_shared<GeneralShared>();
  const AttentionShape& shape = g.in.keys.shape;
  const GeneralPlace at(shape.q());
  const GeneralMatrix<T> q = g.in.queries(at.head), k = g.in.k(shape.key_head(at.head)),
                         v = g.in.v(shape.key_head(at.head)),
                         d_o = GeneralPlace::matrix(g.d_o, shape.o(), at.head);
  const int length = int(g.in.keys.length(at.head)), end = g.in.end_of_keys(at.first, length);
  ScoreTile dq;
  for (int first_key = 0; first_key < end; first_key += general_rows) {
    ScoreTile p = general_dots<narrow>(shared, q, at.first, k, first_key);
    ScoreTile ds = general_dots<narrow>(shared, d_o, at.first, v, first_key);
    probabilities<false>(p, ds, g, at.head, at.first, first_key, length);
    general_add_product<narrow>(shared, dq, ds, k, first_key, at.first_column);
  }
  at.store(g.dq, shape.q(), dq, {1, 1, 1, 1});
}

template <class T, class Call>
GeneralInputs<T> inputs_of(const Call& call) {
  return {call.qkv.template data<T>(), call.keys().template data<T>(), seen_keys(call),
          1 / std::sqrt(float(call.shape.width))};
}

}  // namespace

void attention_general(const AttentionForward& call, DType operands) {
  with_arithmetic(call.qkv.dtype(), operands, [&]<class T, bool narrow>(T*, std::bool_constant<narrow>) {
    launch("attention_general", call.stream, general_launch(call.shape.batch, call.shape.o()),
           general_kernel<T, narrow>, call.o.data<T>(), call.lse.data(), inputs_of<T>(call));
  });
}

void attention_general(const AttentionBackward& call, DType operands) {
  const Tensor delta = attention_delta(call);
  const AttentionShape& s = call.shape;
  with_arithmetic(call.qkv.dtype(), operands, [&]<class T, bool narrow>(T*, std::bool_constant<narrow>) {
    const Gradients<T> g{inputs_of<T>(call), call.dqkv.data<T>(), call.key_gradients().data<T>(),
                         call.d_o.data<T>(), call.lse.data(),     delta.data()};
    launch("attention_general_keys", call.stream, general_launch(s.batch, s.k()),
           general_keys_kernel<T, narrow>, g);
    launch("attention_general_queries", call.stream, general_launch(s.batch, s.q()),
           general_queries_kernel<T, narrow>, g);
  });
}

}  // namespace mxtape::cuda
