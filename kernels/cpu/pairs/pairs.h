#pragma once
#include <array>
#include <cstdint>

#include "kernels/cpu/loops/gemm_loops.h"

namespace mxtape::cpu {

/// Two bf16 that follow each other along the axis of a sum, the first in the high half but with AMX: what one
/// lane of a dot product instruction multiplies and adds at a time, the high half first.
using Word = std::uint32_t;

/// A matrix of f32 or, if `narrow`, bf16, rows `stride` apart, and where its words lie. Rows and columns that
/// a granule lacks are 0.
struct PairSource {
  const void* x;
  std::int64_t stride, rows, width;
  bool narrow = false;

  constexpr std::int64_t size() const { return narrow ? sizeof(std::uint16_t) : sizeof(float); }
  static constexpr std::int64_t lanes = 16, granule = 2 * lanes;
  static constexpr std::int64_t granules(std::int64_t n) { return (n + granule - 1) / granule; }
  /// A left side's pairs: along a row [rows][row_words()]; along a column, turned, [width][column_words()].
  constexpr std::int64_t row_words() const { return granules(width) * lanes; }
  constexpr std::int64_t in_rows() const { return granules(rows) * granule * row_words(); }
  /// For a right side, the same with sixteen rows side by side, lines: [panels of rows][row_words()][16] ...
  constexpr std::int64_t panel_of_rows() const { return row_words() * lanes; }
  /// ... or sixteen columns: [panels of columns][column_words()][16].
  constexpr std::int64_t column_words() const { return granules(rows) * lanes; }
  constexpr std::int64_t panel_of_columns() const { return column_words() * lanes; }
  constexpr std::int64_t in_columns() const { return granules(width) * granule * column_words(); }
};

/// Where copies go, if they are wanted: in_rows() words for rows and lines, in_columns() for the others.
struct PairCopies {
  Word *rows = nullptr, *lines = nullptr, *columns = nullptr, *turned = nullptr;
};

/// One head's queries against its keys. A query i sees the first seen(i) keys.
struct PairHead {
  std::int64_t queries, keys, width;
  std::int64_t first, length;  ///< position of query 0 among the keys; how many may be seen at all
  bool causal;
  float scale;
  PairSource q, k, v;
  bool same_keys;  ///< k and v are those of the call before, whose copies are in the scratch
  float* lse;      ///< of each query
  static constexpr int parts = 5;
  std::array<PairSource, parts> next{};  ///< what is read of the head that comes next, or nothing
  Word* scratch = nullptr;
  constexpr std::int64_t seen(std::int64_t i) const {
    return causal && first + i < length ? first + i + 1 : length;
  }
};

/// o = softmax(scale q k^T) v and lse.
struct PairForward : PairHead {
  float* o;
  std::int64_t o_stride;
  constexpr std::int64_t scores() const {  // [32][keys up to a multiple of 32]
    return PairSource::granules(keys) * PairSource::granule * PairSource::granule;
  }
  constexpr std::int64_t scratch_words() const {
    return k.in_rows() + v.in_columns() + q.in_rows() + 2 * scores();
  }
};

/// The gradients; dk and dv are added to if `same_keys`, and only of keys that a query sees.
struct PairBackward : PairHead {
  PairSource d_o;
  const float* delta;  ///< dO . O of each query
  float *dq, *dk, *dv;
  std::int64_t q_stride, k_stride;

  // So many keys against so many queries at a time: their P and dS stay in the second cache.
  static constexpr std::int64_t keys_at_once = 64, queries_at_once = 512;
  constexpr std::int64_t words_of_key() const {
    const std::int64_t all = PairSource::granules(queries) * PairSource::granule;
    return (all < queries_at_once ? all : queries_at_once) / 2;
  }
  constexpr std::int64_t scratch_words() const {
    return 2 * k.in_rows() + k.in_columns() + 2 * (q.in_rows() + q.in_columns()) +
           3 * keys_at_once * words_of_key();
  }
};

/// What a product of two narrow sides needs beside its job.
struct PairGemm {
  static constexpr std::int64_t lines_of_a = 128, longest = 1536, words_of_b = 5 << 16;
  static constexpr std::int64_t scratch_words = lines_of_a * longest / 2 + words_of_b;
};

/// One head of attention with operands in bf16, and products of two narrow sides. No extent is 0, and every
/// key is seen.
struct PairLoops {
  void (*forward)(const PairForward&);
  void (*backward)(const PairBackward&);
  void (*gemm)(const GemmJob&, Word* scratch);  ///< null without bf16 instructions: GemmLoops have it
};
MXT_TIER_TABLE(PairLoops, pair_loops)

/// Loops of the tier, which widen bf16, or instructions for it. AMX has another order of additions
/// (docs/numerics.md), and its GEMM may add to c with a bias.
enum class PairTier { loops, avx512_bf16, amx_bf16 };
/// The fastest on this machine, unless set_pair_tier() chose another.
PairTier pair_tier();
bool has_pair_tier(PairTier);
/// For tests and benchmarks, of those that the machine has.
void set_pair_tier(PairTier);
const PairLoops& best_pair_loops();

}  // namespace mxtape::cpu
