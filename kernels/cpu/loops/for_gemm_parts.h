#pragma once
// For files compiled once per tier: the order in which parts of a product are packed and multiplied.
#include "kernels/cpu/loops/gemm_loops.h"
#include "kernels/cpu/loops/simd.h"

namespace mxtape::cpu::MXT_TIER {

/// pack_b(line, k, lines, depth) of each part of b, then for each of a the same and multiply(m, n, k, rows,
/// cols, depth). Packed, parts stay in the second cache, b's while all lines of a are multiplied by them.
MXT_LANES void for_gemm_parts(const GemmJob& g, std::int64_t lines_of_a, std::int64_t lines_of_b,
                              std::int64_t most, const auto& pack_a, const auto& pack_b,
                              const auto& multiply) {
  const auto part = [](std::int64_t whole, std::int64_t left) { return left < whole ? left : whole; };
  for (std::int64_t n = 0; n < g.N; n += lines_of_b)
    for (std::int64_t k = 0; k < g.K; k += most) {
      const std::int64_t cols = part(lines_of_b, g.N - n), depth = part(most, g.K - k);
      pack_b(n, k, cols, depth);
      for (std::int64_t m = 0; m < g.M; m += lines_of_a) {
        const std::int64_t rows = part(lines_of_a, g.M - m);
        pack_a(m, k, rows, depth);
        multiply(m, n, k, rows, cols, depth);
      }
    }
}

}  // namespace mxtape::cpu::MXT_TIER
