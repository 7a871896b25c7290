#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {
namespace {

using Matrix = std::vector<float>;

/// c [m, n] = scale * op(a) op(b), summed over k.
Matrix product(const Matrix& a, Trans ta, const Matrix& b, Trans tb, std::int64_t m, std::int64_t n,
               std::int64_t k, float scale) {
  Matrix c(std::size_t(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += a[std::size_t(ta == Trans::no ? i * k + l : l * m + i)] *
               b[std::size_t(tb == Trans::no ? l * n + j : j * k + l)];
      c[std::size_t(i * n + j)] = sum * scale;
    }
  return c;
}

/// One head of one sequence. Random draws: the field's place in AttentionQuant is added to the tensor id;
/// elements are numbered in [B, H, T, D] or [B, H, T, T].
struct Head {
  AttentionShape s;
  std::int64_t index;  // b * H + h
  const DrawKey& draws;

  Matrix take(const Tensor& x, std::int64_t part, std::int64_t parts) const {
    Matrix y(std::size_t(s.time * s.width));
    const std::int64_t b = index / s.heads, h = index % s.heads;
    for (std::int64_t t = 0; t < s.time; ++t)
      for (std::int64_t d = 0; d < s.width; ++d)
        y[std::size_t(t * s.width + d)] =
            x.data()[((b * s.time + t) * parts + part) * s.heads * s.width + h * s.width + d];
    return y;
  }
  void put(const Tensor& y, const Matrix& x, std::int64_t part, std::int64_t parts) const {
    const std::int64_t b = index / s.heads, h = index % s.heads;
    for (std::int64_t t = 0; t < s.time; ++t)
      for (std::int64_t d = 0; d < s.width; ++d)
        y.data()[((b * s.time + t) * parts + part) * s.heads * s.width + h * s.width + d] =
            x[std::size_t(t * s.width + d)];
  }
  Matrix rounded(const Matrix& x, const Quantizer& q, Axis axis, unsigned slot, float& multiplier) const {
    if (q.is_identity()) return x;
    const std::int64_t columns = std::int64_t(x.size()) / s.time;
    DrawKey key = draws;
    key.tensor_id += slot;
    key.first_element += std::uint64_t(index * s.time * columns);
    Matrix y(x.size());
    multiplier *= quantize_reference(y.data(), x.data(), s.time, columns, axis, q, key);
    return y;
  }
};

}  // namespace

void CpuBackend::attention(const Tensor& o, const Tensor& lse, const Tensor& qkv, AttentionShape s,
                           const AttentionQuant& quant, const DrawKey& draws) {
  const std::int64_t T = s.time, D = s.width;
  parallel_for(s.batch * s.heads, 1, [&](std::int64_t begin, std::int64_t) {
    const Head head{s, begin, draws};
    float scale = 1 / std::sqrt(float(D));
    const Matrix v = head.take(qkv, 2, 3);
    const Matrix q = head.rounded(head.take(qkv, 0, 3), quant.qk_q, Axis::cols, 0, scale);
    const Matrix k = head.rounded(head.take(qkv, 1, 3), quant.qk_k, Axis::cols, 1, scale);
    Matrix p = product(q, Trans::no, k, Trans::yes, T, T, D, scale);
    for (std::int64_t i = 0; i < T; ++i) {
      float* row = p.data() + i * T;
      float top = row[0], sum = 0;
      for (std::int64_t j = 0; j <= i; ++j) top = row[j] > top ? row[j] : top;
      for (std::int64_t j = 0; j <= i; ++j) sum += std::exp(row[j] - top);
      const float log_sum = top + std::log(sum);
      lse.data()[begin * T + i] = log_sum;
      for (std::int64_t j = 0; j < T; ++j) row[j] = j <= i ? std::exp(row[j] - log_sum) : 0;
    }
    float multiplier = 1;
    p = head.rounded(p, quant.pv_p, Axis::cols, 2, multiplier);
    const Matrix pv_v = head.rounded(v, quant.pv_v, Axis::rows, 3, multiplier);
    head.put(o, product(p, Trans::no, pv_v, Trans::no, T, D, T, multiplier), 0, 1);
  });
}

void CpuBackend::attention_backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                                    const Tensor& lse, AttentionShape s, const AttentionQuant& quant,
                                    const DrawKey& draws) {
  const std::int64_t T = s.time, D = s.width;
  parallel_for(s.batch * s.heads, 1, [&](std::int64_t begin, std::int64_t) {
    const Head head{s, begin, draws};
    const float root = 1 / std::sqrt(float(D));
    const Matrix q = head.take(qkv, 0, 3), k = head.take(qkv, 1, 3), v = head.take(qkv, 2, 3);
    const Matrix out = head.take(o, 0, 1), dout = head.take(d_o, 0, 1);
    float scale = root;
    const Matrix qk_q = head.rounded(q, quant.qk_q, Axis::cols, 0, scale);
    const Matrix qk_k = head.rounded(k, quant.qk_k, Axis::cols, 1, scale);
    Matrix p = product(qk_q, Trans::no, qk_k, Trans::yes, T, T, D, scale);
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t j = 0; j < T; ++j) {
        float& e = p[std::size_t(i * T + j)];
        e = j <= i ? std::exp(e - lse.data()[begin * T + i]) : 0;
      }
    float multiplier = 1;
    const Matrix dv_p = head.rounded(p, quant.dv_p, Axis::rows, 4, multiplier);
    const Matrix dv_do = head.rounded(dout, quant.dv_do, Axis::rows, 5, multiplier);
    head.put(dqkv, product(dv_p, Trans::yes, dv_do, Trans::no, T, D, T, multiplier), 2, 3);
    multiplier = 1;
    const Matrix dp_do = head.rounded(dout, quant.dp_do, Axis::cols, 6, multiplier);
    const Matrix dp_v = head.rounded(v, quant.dp_v, Axis::cols, 7, multiplier);
    Matrix ds = product(dp_do, Trans::no, dp_v, Trans::yes, T, T, D, multiplier);
    for (std::int64_t i = 0; i < T; ++i) {
      float delta = 0;
      for (std::int64_t d = 0; d < D; ++d)
        delta += dout[std::size_t(i * D + d)] * out[std::size_t(i * D + d)];
      for (std::int64_t j = 0; j < T; ++j) {
        float& e = ds[std::size_t(i * T + j)];
        e = j <= i ? p[std::size_t(i * T + j)] * (e - delta) * root : 0;
      }
    }
    multiplier = 1;
    const Matrix dq_ds = head.rounded(ds, quant.dq_ds, Axis::cols, 8, multiplier);
    const Matrix dq_k = head.rounded(k, quant.dq_k, Axis::rows, 9, multiplier);
    head.put(dqkv, product(dq_ds, Trans::no, dq_k, Trans::no, T, D, T, multiplier), 0, 3);
    multiplier = 1;
    const Matrix dk_ds = head.rounded(ds, quant.dk_ds, Axis::rows, 10, multiplier);
    const Matrix dk_q = head.rounded(q, quant.dk_q, Axis::rows, 11, multiplier);
    head.put(dqkv, product(dk_ds, Trans::yes, dk_q, Trans::no, T, D, T, multiplier), 1, 3);
  });
}

}  // namespace mxtape
