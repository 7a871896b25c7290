#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

void CpuBackend::layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                            const Tensor& gain, const Tensor& bias, float eps) {
  const std::int64_t C = x.cols();
  parallel_for(x.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* in = x.data() + r * C;
      float* out = y.data() + r * C;
      double sum = 0, squares = 0;
      for (std::int64_t c = 0; c < C; ++c) sum += in[c];
      const float m = float(sum / double(C));
      for (std::int64_t c = 0; c < C; ++c) squares += double(in[c] - m) * double(in[c] - m);
      const float s = float(1 / std::sqrt(squares / double(C) + eps));
      mean.data()[r] = m;
      rstd.data()[r] = s;
      for (std::int64_t c = 0; c < C; ++c)
        out[c] = gain.data()[c] * ((in[c] - m) * s) + (bias ? bias.data()[c] : 0);
    }
  });
}

void CpuBackend::layer_norm_backward(const Tensor& dx, const Tensor& dgain, const Tensor& dbias,
                                     const Tensor& dy, const Tensor& x, const Tensor& mean,
                                     const Tensor& rstd, const Tensor& gain, Write gain_bias) {
  const std::int64_t C = x.cols(), rows = x.rows();
  if (gain_bias == Write::overwrite) {
    std::fill_n(dgain.data(), C, 0.0f);
    if (dbias) std::fill_n(dbias.data(), C, 0.0f);
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < C; ++c) {
      const float g = dy.data()[r * C + c];
      dgain.data()[c] += g * (x.data()[r * C + c] - mean.data()[r]) * rstd.data()[r];
      if (dbias) dbias.data()[c] += g;
    }
  parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float m = mean.data()[r], s = rstd.data()[r];
      double sum = 0, dot = 0;
      for (std::int64_t c = 0; c < C; ++c) {
        const double g = double(dy.data()[r * C + c]) * gain.data()[c];
        sum += g;
        dot += g * ((x.data()[r * C + c] - m) * s);
      }
      for (std::int64_t c = 0; c < C; ++c) {
        const float g = dy.data()[r * C + c] * gain.data()[c];
        const float hat = (x.data()[r * C + c] - m) * s;
        dx.data()[r * C + c] = s * (g - float(sum / double(C)) - hat * float(dot / double(C)));
      }
    }
  });
}

void CpuBackend::softmax(const Tensor& y, const Tensor& x) {
  const std::int64_t C = x.cols();
  parallel_for(x.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* in = x.data() + r * C;
      float* out = y.data() + r * C;
      float top = in[0];
      for (std::int64_t c = 0; c < C; ++c) top = in[c] > top ? in[c] : top;
      float sum = 0;
      for (std::int64_t c = 0; c < C; ++c) sum += out[c] = std::exp(in[c] - top);
      for (std::int64_t c = 0; c < C; ++c) out[c] /= sum;
    }
  });
}

void CpuBackend::softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  const std::int64_t C = y.cols();
  parallel_for(y.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float dot = 0;
      for (std::int64_t i = r * C; i < (r + 1) * C; ++i) dot += dy.data()[i] * y.data()[i];
      for (std::int64_t i = r * C; i < (r + 1) * C; ++i) dx.data()[i] = y.data()[i] * (dy.data()[i] - dot);
    }
  });
}

void CpuBackend::cross_entropy(const Tensor& loss, const Tensor& losses, const Tensor& dlogits,
                               const Tensor& logits, const Tensor& targets, float scale) {
  const std::int64_t V = logits.cols(), rows = logits.rows();
  parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* in = logits.data() + r * V;
      const std::int32_t target = targets.data<std::int32_t>()[r];
      float top = in[0];
      for (std::int64_t c = 0; c < V; ++c) top = in[c] > top ? in[c] : top;
      float sum = 0;
      for (std::int64_t c = 0; c < V; ++c) sum += std::exp(in[c] - top);
      losses.data()[r] = std::log(sum) - (in[target] - top);
      if (!dlogits) continue;
      float* out = dlogits.data() + r * V;
      const float each = scale / float(rows);
      for (std::int64_t c = 0; c < V; ++c)
        out[c] = (std::exp(in[c] - top) / sum - (c == target ? 1.0f : 0.0f)) * each;
    }
  });
  double total = 0;
  for (const float l : losses.host()) total += l;
  *loss.data() = float(total / double(rows));
}

void CpuBackend::embedding(const Tensor& y, const Tensor& table, const Tensor& positions,
                           const Tensor& tokens) {
  const std::int64_t C = y.cols(), T = tokens.cols();
  parallel_for(y.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = table.data() + tokens.data<std::int32_t>()[r] * C;
      for (std::int64_t c = 0; c < C; ++c)
        y.data()[r * C + c] = row[c] + (positions ? positions.data()[r % T * C + c] : 0);
    }
  });
}

void CpuBackend::embedding_backward(const Tensor& dtable, const Tensor& dpositions, const Tensor& dy,
                                    const Tensor& tokens, Write table, Write positions) {
  const std::int64_t C = dy.cols(), T = tokens.cols();
  if (table == Write::overwrite) std::fill_n(dtable.data(), dtable.count(), 0.0f);
  if (dpositions && positions == Write::overwrite) std::fill_n(dpositions.data(), dpositions.count(), 0.0f);
  parallel_for(C, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < dy.rows(); ++r) {
      const float* in = dy.data() + r * C;
      float* row = dtable.data() + tokens.data<std::int32_t>()[r] * C;
      for (std::int64_t c = begin; c < end; ++c) {
        row[c] += in[c];
        if (dpositions) dpositions.data()[r % T * C + c] += in[c];
      }
    }
  });
}

}  // namespace mxtape
