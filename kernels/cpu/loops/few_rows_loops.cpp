#include "kernels/cpu/loops/few_rows_loops.h"

#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

/// The first n < 16; the rest is 0.
MXT_LANES f32x16 wide_first(const float* p, std::int64_t n) { return load_first(p, n); }
MXT_LANES f32x16 wide_first(const std::uint16_t* p, std::int64_t n) {
  return floats(load_halves_there(p, n) << 16);
}

// Rows of a and columns of c of one block: their sums stay in registers, and each number of b that was read
// serves all rows.
constexpr int block_rows = 4, block_columns = 4, block_vectors = 4, blocks_ahead = 4;

template <int rows, int columns, class B>
MXT_LANES void dots_block(const GemmJob& j, std::int64_t m, std::int64_t n) {
  const float* const a = static_cast<const float*>(j.a.x) + m * j.a.stride;
  const B* const b = static_cast<const B*>(j.b.x) + n * j.b.stride;
  f32x16 sums[rows][columns] = {};
  std::int64_t k = 0;
  const auto add = [&](const auto& of_a, const auto& of_b) {
    for (int column = 0; column < columns; ++column) {
      // Rows are too short for the processor to see where it goes on: it is told, a block ahead.
      __builtin_prefetch(b + (blocks_ahead * columns + column) * j.b.stride + k, 0, 2);
      const f32x16 w = of_b(b + column * j.b.stride);
      for (int row = 0; row < rows; ++row) sums[row][column] += of_a(a + row * j.a.stride) * w;
    }
  };
  for (; k + lanes <= j.K; k += lanes)
    add([k](const float* p) { return wide(p + k); }, [k](const B* p) { return wide(p + k); });
  if (const std::int64_t rest = j.K - k; rest > 0)
    add([=](const float* p) { return wide_first(p + k, rest); },
        [=](const B* p) { return wide_first(p + k, rest); });
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      float& c = j.c[(m + row) * j.c_stride + n + column];
      const float value = sum(sums[row][column]) + (j.bias ? j.bias[n + column] : 0.0f);
      c = j.accumulate ? c + value : value;
    }
}

/// body(m, rows) for blocks of rows.
MXT_LANES void for_row_blocks(std::int64_t M, const auto& body) {
  std::int64_t m = 0;
  for (; m + block_rows <= M; m += block_rows) body(m, std::integral_constant<int, block_rows>{});
  for (; m < M; ++m) body(m, std::integral_constant<int, 1>{});
}

template <class B>
void dots(const GemmJob& j) {
  const auto all_rows = [&]<int columns>(std::int64_t n) {
    for_row_blocks(j.M, [&](std::int64_t m, auto rows) { dots_block<rows(), columns, B>(j, m, n); });
  };
  std::int64_t n = 0;
  for (; n + block_columns <= j.N; n += block_columns) all_rows.template operator()<block_columns>(n);
  for (; n < j.N; ++n) all_rows.template operator()<1>(n);
}

/// `count` columns from n on: 16 for each vector, or fewer of one.
template <int rows, int vectors, class B>
MXT_LANES void columns_block(const GemmJob& j, std::int64_t m, std::int64_t n, std::int64_t count) {
  const float* const a = static_cast<const float*>(j.a.x) + m * j.a.stride;
  const B* const b = static_cast<const B*>(j.b.x) + n;
  f32x16 sums[rows][vectors] = {};
  const auto add = [&](const auto& load_b) {
    for (std::int64_t k = 0; k < j.K; ++k)
      for (int v = 0; v < vectors; ++v) {
        const f32x16 w = load_b(b + k * j.b.stride + v * lanes);
        for (int row = 0; row < rows; ++row) sums[row][v] += w * a[row * j.a.stride + k];
      }
  };
  if (count == vectors * lanes)
    add([](const B* p) { return wide(p); });
  else
    add([count](const B* p) { return wide_first(p, count); });
  for (int row = 0; row < rows; ++row)
    for (int v = 0; v < vectors; ++v) {
      float* const c = j.c + (m + row) * j.c_stride + n + v * lanes;
      const float* const bias = j.bias ? j.bias + n + v * lanes : nullptr;
      f32x16 value = sums[row][v];
      if (bias) value += load_there(bias, count);
      if (j.accumulate) value = load_there(c, count) + value;
      store_there(c, value, count);
    }
}

template <class B>
void columns(const GemmJob& j) {
  const auto all_rows = [&]<int vectors>(std::int64_t n, std::int64_t count) {
    for_row_blocks(j.M,
                   [&](std::int64_t m, auto rows) { columns_block<rows(), vectors, B>(j, m, n, count); });
  };
  std::int64_t n = 0;
  for (; n + block_vectors * lanes <= j.N; n += block_vectors * lanes)
    all_rows.template operator()<block_vectors>(n, block_vectors * lanes);
  for (; n + lanes <= j.N; n += lanes) all_rows.template operator()<1>(n, lanes);
  if (n < j.N) all_rows.template operator()<1>(n, j.N - n);
}

}  // namespace

extern const FewRowsLoops few_rows_loops{dots<float>, dots<std::uint16_t>, columns<float>,
                                         columns<std::uint16_t>};

}  // namespace mxtape::cpu::MXT_TIER
