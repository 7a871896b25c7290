#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/few_rows.h"
#include "kernels/cpu/integer/gemm_codes.h"
#include "kernels/extents.h"

namespace mxtape {
namespace {

using cpu::MatrixView;

MatrixView view(const Rounded& x, const Tensor& values) {
  return {values.raw(), values.dtype(), x.cols(), x.axis};
}

/// x from a line on.
MatrixView from(MatrixView x, std::int64_t line) {
  const std::int64_t offset = (x.axis == Axis::row ? line * x.stride : line) * size_of(x.dtype);
  x.data = static_cast<const char*>(x.data) + offset;
  return x;
}

/// c = sums * factor + bias (+ c). c may be the memory of sums.
void scale_into(float* c, std::int64_t c_stride, const float* sums, std::int64_t sums_stride, std::int64_t M,
                std::int64_t N, float factor, const float* bias, Write write) {
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) {
      float& out = c[m * c_stride + n];
      const float value = sums[m * sums_stride + n] * factor + (bias ? bias[n] : 0.0f);
      out = write == Write::accumulate ? out + value : value;
    }
}

}  // namespace

cpu::Piece cpu::cut(std::int64_t M, std::int64_t N, std::int64_t K) {
  constexpr double work = 0x1p22;  // products that pay for handing out a piece and packing its sides again
  constexpr double most = 16;      // more pieces only pack more often
  constexpr std::int64_t granule = 64;  // whole register tiles of oneDNN's kernels
  if (M <= most_few_rows) {             // a stream over the other side, for all threads to share
    constexpr std::int64_t numbers = 1 << 18;
    return {M, std::max(granule, numbers / std::max<std::int64_t>(K, 1) / granule * granule)};
  }
  const double wanted = std::min(most, double(M) * double(N) * double(K) / work);
  Piece piece{M, N};
  for (double count = 1; 2 * count <= wanted; count *= 2) {
    std::int64_t& longer = piece.rows >= piece.cols ? piece.rows : piece.cols;
    if (longer < 2 * granule) break;
    longer = ((longer + 1) / 2 + granule - 1) / granule * granule;
  }
  return piece;
}

void CpuBackend::compute(const call::Gemm& call) {
  const auto [M, N, K] = extents_of(call);
  last_gemm_ = gemm_path(call.a.elements.dtype(), call.b.elements.dtype(), cpu::gemm_takes_bf16());
  if (last_gemm_ == GemmPath::integer) return cpu::gemm_codes(*this, call);

  const bool as_they_are = last_gemm_ == GemmPath::bf16 || cpu::is_few_rows(view(call.a, call.a.elements), M);
  const auto wide = [&](const Tensor& x) { return as_they_are || x.dtype() != DType::bf16 ? x : widened(x); };
  const Tensor a = wide(call.a.elements), b = wide(call.b.elements);
  const MatrixView av = view(call.a, a), bv = view(call.b, b);

  const bool scaled = call.a.multiplier || call.b.multiplier;
  const float factor = (call.a.multiplier ? *call.a.multiplier.data() : 1.0f) *
                       (call.b.multiplier ? *call.b.multiplier.data() : 1.0f);
  const cpu::Piece piece = cpu::cut(M, N, K);
  const std::int64_t down = (M + piece.rows - 1) / std::max<std::int64_t>(piece.rows, 1);
  const std::int64_t across = (N + piece.cols - 1) / std::max<std::int64_t>(piece.cols, 1);
  parallel_for(down * across, 1, [&, M = M, N = N, K = K](std::int64_t index, std::int64_t) {
    const std::int64_t m = index / across * piece.rows, n = index % across * piece.cols;
    const std::int64_t rows = std::min(piece.rows, M - m), cols = std::min(piece.cols, N - n);
    float* const out = call.c.data() + m * N + n;
    const float* const part_of_bias = call.bias ? call.bias.data() + n : nullptr;
    const MatrixView left = from(av, m), right = from(bv, n);
    if (!scaled) return cpu::gemm_block(out, N, left, right, rows, cols, K, call.write, part_of_bias);
    if (call.write == Write::overwrite) {
      cpu::gemm_block(out, N, left, right, rows, cols, K);
      return scale_into(out, N, out, N, rows, cols, factor, part_of_bias, call.write);
    }
    thread_local std::vector<float> sums;
    sums.resize(std::size_t(rows * cols));
    cpu::gemm_block(sums.data(), cols, left, right, rows, cols, K);
    scale_into(out, N, sums.data(), cols, rows, cols, factor, part_of_bias, call.write);
  });
}

Tensor CpuBackend::widened(const Tensor& x) {
  Tensor y = empty(x.shape());
  widen(y, x);
  return y;
}

void CpuBackend::widen(const Tensor& y, const Tensor& x) {
  const bf16* const in = x.data<bf16>();
  float* const out = y.data();
  constexpr std::int64_t grain = 1 << 16;
  parallel_for(x.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = to_f32(in[i]);
  });
}

}  // namespace mxtape
