#include "kernels/cuda/cudnn/cudnn_attention_graphs.h"

#include <cmath>
#include <limits>

namespace mxtape::cuda::cudnn {
namespace {

/// The matrices [T, D] of a part's heads, side by side in a token's row.
Layout layout_of(const AttentionShape& s, const AttentionPart& part) {
  return {{s.batch, part.heads, part.rows, part.width}, {part.sequence, part.width, part.row, 1}};
}

/// The first element of a part.
void* first_of(const Tensor& x, const AttentionPart& part) { return x.data<bf16>() + part.first; }

float scale_of(const AttentionShape& s) { return 1 / std::sqrt(float(s.width)); }
constexpr float masked_score = -std::numeric_limits<float>::infinity();

Value causal(Graph& g, Value scores, Value masked) {
  constexpr std::int64_t queries = 2, keys = 3;
  const Value row = g.index(scores, queries), col = g.index(scores, keys);
  return g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, masked, g.at_least(row, col)});
}

}  // namespace

Graph attention_graph(const Library& library, const AttentionShape& s) {
  Graph g(library);
  const Layout keys = layout_of(s, s.k()), column = dense(s.batch, s.heads, s.time, 1);
  const Value q = g.stored(layout_of(s, s.q())), k_turned = g.stored(keys.turned()), v = g.stored(keys);
  const Value o = g.stored(layout_of(s, s.o())), lse = g.stored(column, CUDNN_DATA_FLOAT);
  const Value scale = g.scalar(), masked = g.scalar();

  const Value scores = causal(g, g.pointwise(CUDNN_POINTWISE_MUL, {g.matmul(q, k_turned), scale}), masked);
  const Value top = g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Value e = g.pointwise(CUDNN_POINTWISE_EXP, {g.pointwise(CUDNN_POINTWISE_SUB, {scores, top})});
  const Value sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, e);
  g.pointwise(CUDNN_POINTWISE_ADD, {top, g.pointwise(CUDNN_POINTWISE_LOG, {sum})}, lse);
  g.matmul(g.pointwise(CUDNN_POINTWISE_DIV, {e, sum}, CUDNN_DATA_BFLOAT16), v, o);
  return g;
}

Graph attention_backward_graph(const Library& library, const AttentionShape& s) {
  Graph g(library);
  const Layout queries = layout_of(s, s.q()), keys = layout_of(s, s.k()), rows = layout_of(s, s.o()),
               column = dense(s.batch, s.heads, s.time, 1);
  const Value q = g.stored(queries), k_turned = g.stored(keys.turned()), v_turned = g.stored(keys.turned());
  const Value o = g.stored(rows), lse = g.stored(column, CUDNN_DATA_FLOAT), d_o = g.stored(rows);
  const Value dq = g.stored(queries), dk = g.stored(keys), dv = g.stored(keys);
  const Value delta = g.stored(column, CUDNN_DATA_FLOAT);
  const Value scale = g.scalar(), masked = g.scalar(), one = g.scalar();

  const Value products = g.pointwise(CUDNN_POINTWISE_MUL, {d_o, o});
  g.pointwise(CUDNN_POINTWISE_MUL, {g.reduce(CUDNN_REDUCE_TENSOR_ADD, products), one}, delta);

  const Value scores = g.pointwise(CUDNN_POINTWISE_MUL, {g.matmul(q, k_turned), scale});
  const Value p =
      g.pointwise(CUDNN_POINTWISE_EXP, {causal(g, g.pointwise(CUDNN_POINTWISE_SUB, {scores, lse}), masked)});
  g.matmul(g.turned(p, CUDNN_DATA_BFLOAT16), d_o, dv);

  const Value dp = g.pointwise(CUDNN_POINTWISE_SUB, {g.matmul(d_o, v_turned), delta});
  const Value ds = g.pointwise(CUDNN_POINTWISE_MUL, {g.pointwise(CUDNN_POINTWISE_MUL, {dp, p}), scale});
  g.matmul(g.turned(ds, CUDNN_DATA_BFLOAT16), q, dk);
  g.matmul(ds, g.turned(k_turned, CUDNN_DATA_BFLOAT16), dq);
  return g;
}

void run_attention(const Plan& plan, const Call& call, const Tensor& o, const Tensor& lse,
                   const Tensor& qkv) {
  const AttentionShape& s = call.shape;
  float scale = scale_of(s), masked = masked_score;
  plan.run(
      call.handle,
      {first_of(qkv, s.q()), first_of(qkv, s.k()), first_of(qkv, s.v()), o.raw(), lse.raw(), &scale, &masked},
      call.workspace);
}

void run_attention_backward(const Plan& plan, const Call& call, const Tensor& dqkv, const Tensor& d_o,
                            const Tensor& qkv, const Tensor& o, const Tensor& lse, const Tensor& delta) {
  const AttentionShape& s = call.shape;
  float scale = scale_of(s), masked = masked_score, one = 1;
  plan.run(call.handle,
           {first_of(qkv, s.q()), first_of(qkv, s.k()), first_of(qkv, s.v()), o.raw(), lse.raw(), d_o.raw(),
            first_of(dqkv, s.q()), first_of(dqkv, s.k()), first_of(dqkv, s.v()), delta.raw(), &scale, &masked,
            &one},
           call.workspace);
}

}  // namespace mxtape::cuda::cudnn
