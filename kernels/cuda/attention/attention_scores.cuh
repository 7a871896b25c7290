#pragma once
#include "kernels/cuda/attention/attention_tiles.cuh"
#include "kernels/cuda/keys.h"
#include "kernels/cuda/quantize/round.h"

/// Quantizing scores where attention has them: in registers, a warp's 16 rows of a product. Blocks of 32 run
/// along the product's columns, so a block is four parts of one row, spread over the four lanes of a quad.
namespace mxtape::cuda {

/// How P or dS is rounded before it multiplies. Their elements [b, h, query, key] are numbered in that order
/// by the stream of draws.
struct ScoreRounding {
  enum class Way : std::uint8_t { bf16_cast, even, stochastic };
  Way way = Way::bf16_cast;
  BlockRule rule{};
  FastGrid grid{};
  ClockedKey draws{};
  RoundKeys round_keys{};  ///< of draws' seed
  int draw_bits = 0;       ///< of each stochastic rounding
};

/// A quantizer whose blocks are found in registers, one that rounds to bf16 included.
bool rounds_scores(const Quantizer&);
ScoreRounding score_rounding(const Quantizer&, const ClockedKey&);

/// Random bits for a lane's share of a block: [part][i] as in the parts.
using BlockDraws = std::uint32_t[4][4];

/// Draws for blocks of keys: a row of the product is a query, elements of a row follow each other in the
/// stream. `first` is the element of the lane's row g in the block's first column; rows are `stride` apart.
/// Lane t of a quad makes the eight draws of part t, then the quad exchanges words.
__device__ inline void draw_along_columns(BlockDraws& draws, const ScoreRounding& how, const DrawKey& key,
                                          std::uint64_t first, std::uint64_t stride) {
  const int t = lane_id() % 4;
  const bool high = (t & 2) != 0, odd = (t & 1) != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto w =
        group_of(key, how.round_keys, (first + unsigned(half) * 8 * stride + unsigned(t) * 8) >> 3);
    // A transposition: word t of part n's draws goes from lane n to lane t.
    std::uint32_t a[4], words[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t other = warp_xor(high ? w[i] : w[i + 2], 2);
      a[i] = high ? other : w[i];
      a[i + 2] = high ? w[i + 2] : other;
    }
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const std::uint32_t other = warp_xor(odd ? a[i] : a[i + 1], 1);
      words[i] = odd ? other : a[i];
      words[i + 1] = odd ? a[i + 1] : other;
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const DrawPair pair = draw_pair(words[n], how.draw_bits);
      draws[n][2 * half] = pair.low;
      draws[n][2 * half + 1] = pair.high;
    }
  }
}

/// Draws for blocks of queries: a row of the product is a key, a column a query, elements of a column follow
/// each other. `first` is the element of the warp's first row in the block's first column, columns are
/// `stride` apart. The eight lanes with the same t share eight columns: lane g makes the draws of the g-th,
/// rows 0 to 7 and 8 to 15, then each sends the others their words.
__device__ inline void draw_along_rows(BlockDraws& draws, const ScoreRounding& how, const DrawKey& key,
                                       std::uint64_t first, std::uint64_t stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const bool bit2 = (g & 4) != 0, bit1 = (g & 2) != 0, bit0 = (g & 1) != 0;
  const unsigned column = unsigned(8 * (g / 2) + 2 * t + g % 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto w = group_of(key, how.round_keys, (first + column * stride + unsigned(half) * 8) >> 3);
    // Rows 2 k and 2 k + 1 want word k of all eight columns: each exchange halves the words that are kept of
    // a column and doubles the columns. Columns are in the order of their lanes' g.
    std::uint32_t two[2][2], four[2][2], eight[2][2][2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const std::uint32_t own = bit2 ? w[k + 2] : w[k], other = warp_xor(bit2 ? w[k] : w[k + 2], 16);
      two[0][k] = bit2 ? other : own;
      two[1][k] = bit2 ? own : other;
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const std::uint32_t own = bit1 ? two[c][1] : two[c][0],
                          other = warp_xor(bit1 ? two[c][0] : two[c][1], 8);
      four[c][0] = bit1 ? other : own;
      four[c][1] = bit1 ? own : other;
    }
#pragma unroll
    for (int c = 0; c < 2; ++c)
#pragma unroll
      for (int d = 0; d < 2; ++d) {
        const std::uint32_t own = four[c][d], other = warp_xor(own, 4);
        eight[c][d][0] = bit0 ? other : own;
        eight[c][d][1] = bit0 ? own : other;
      }
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const DrawPair pair = draw_pair(eight[n / 2][n % 2][i], how.draw_bits);
        draws[n][2 * half + i] = bit0 ? pair.high : pair.low;
      }
  }
}

/// Largest magnitude, as bits, of the block in row g + 8 half: by all lanes of a quad.
__device__ inline std::uint32_t row_amax(const float (&block)[4][4], int half) {
  std::uint32_t amax = 0;
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 2 * half; i < 2 * half + 2; ++i) {
      const std::uint32_t magnitude = bits_of(block[n][i]) & 0x7fffffffu;
      amax = magnitude > amax ? magnitude : amax;
    }
#pragma unroll
  for (int mask = 1; mask < 4; mask *= 2) {
    const std::uint32_t other = warp_xor(amax, mask);
    amax = other > amax ? other : amax;
  }
  return amax;
}

/// Rounds two blocks, those of rows g and g + 8, in place.
__device__ inline void round_blocks(float (&block)[4][4], const ScoreRounding& how, const BlockDraws& draws) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const BlockScale scale = power_of_two_scale(how.rule, float_of(row_amax(block, half)));
    const auto round_row = [&](const auto& round) {  // one branch for all of a lane's elements
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i)
          block[n][i] = round(block[n][i] * scale.inverse, n, i) * scale.scale;
    };
    if (how.way == ScoreRounding::Way::even)
      round_row([&](float x, int, int) { return round_even_fast(how.grid, x); });
    else
      round_row([&](float x, int n, int i) { return round_stochastic_fast(how.grid, x, draws[n][i]); });
  }
}

/// The scores as factors of the next product, rounded; `draw(draws, block)` makes the random bits of a block.
template <int parts, class Draw>
__device__ void round_scores(Factor (&y)[parts / 2], const Part (&x)[parts], const ScoreRounding& how,
                             const Draw& draw) {
  static_assert(parts % 4 == 0);
#pragma unroll
  for (int b = 0; b < parts / 4; ++b) {
    float block[4][4];
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) block[n][i] = x[4 * b + n][i];
    if (how.way != ScoreRounding::Way::bf16_cast) {
      BlockDraws draws;
      if (how.way == ScoreRounding::Way::stochastic) draw(draws, b);
      round_blocks(block, how, draws);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        y[2 * b + n / 2][n % 2 * 2 + half] = bf16_pair(block[n][2 * half], block[n][2 * half + 1]);
  }
}

}  // namespace mxtape::cuda
