#pragma once
#include <cstdint>

namespace mxtape::cpu {

/// Two bf16 that follow each other along the axis of a sum, the first in the low half: what one lane of a
/// dot product instruction multiplies and adds at a time.
using Word = std::uint32_t;

/// A head's matrix of f32 or, if `narrow`, bf16, rows `stride` apart, and where its words lie. What is
/// missing in a pair, a panel or a block of eight rows is 0.
struct PairSource {
  const void* x;
  std::int64_t stride, rows, width;
  bool narrow = false;

  static constexpr std::int64_t lanes = 16, block = 8;
  /// Pairs along a row, [rows up to a multiple of 16][row_words()].
  constexpr std::int64_t row_words() const { return (width + 2 * lanes - 1) / (2 * lanes) * lanes; }
  constexpr std::int64_t in_rows() const { return (rows + lanes - 1) / lanes * lanes * row_words(); }
  /// The same with sixteen rows side by side, [panels of rows][panel_of_rows() / 16][16].
  constexpr std::int64_t panel_of_rows() const { return (width + 1) / 2 * lanes; }
  constexpr std::int64_t in_lines() const { return (rows + lanes - 1) / lanes * panel_of_rows(); }
  /// Pairs along a column, sixteen columns side by side: [panels of columns][panel_of_columns() / 16][16].
  constexpr std::int64_t panel_of_columns() const { return (rows + lanes - 1) / lanes * block * lanes; }
  constexpr std::int64_t in_columns() const { return (width + lanes - 1) / lanes * panel_of_columns(); }
};

/// Where copies go, if they are wanted.
struct PairCopies {
  Word *rows = nullptr, *lines = nullptr, *columns = nullptr;
};

/// One head's queries against keys that are packed. A query i sees the first seen(i) keys.
struct PairHead {
  std::int64_t queries, keys, width;
  std::int64_t first, length;  ///< position of query 0 among the keys; how many may be seen at all
  bool causal;
  float scale;
  constexpr std::int64_t seen(std::int64_t i) const {
    return causal && first + i < length ? first + i + 1 : length;
  }
};

/// What the thread will read next: it is fetched meanwhile.
struct PairAhead {
  PairSource sources[5];
  int count = 0;
  std::int64_t rows = 0;  ///< the most of a source
  void add(const PairSource& m) {
    sources[count++] = m;
    rows = m.rows > rows ? m.rows : rows;
  }
};

/// o = softmax(scale q k^T) v and lse, of one head.
struct PairForward {
  PairHead head;
  const Word *q, *k, *v;  ///< in rows, lines, columns
  float* o;
  std::int64_t o_stride;
  float* lse;
  float* s;  ///< scratch, [16][keys up to a multiple of 16]
  Word* p;   ///< scratch, [16][half as many]
  PairAhead ahead{};

  static constexpr std::int64_t tile = 16;
  static constexpr std::int64_t scratch_words(std::int64_t keys) { return (keys + 15) / 16 * 16 * tile; }
};

/// The gradients of one head; dk and dv are added to if `accumulate`, and only of keys that a query sees.
struct PairBackward {
  PairHead head;
  const Word *q_rows, *q_columns, *do_rows, *do_columns, *k_lines, *k_columns, *v_lines;
  const float *lse, *delta;  ///< delta: dO . O of each query
  float *dq, *dk, *dv;
  std::int64_t q_stride, k_stride;
  bool accumulate;
  Word *p, *ds_lines, *ds_rows;  ///< scratch, scratch_words() each
  PairAhead ahead{};

  // So many keys against so many queries at a time: their P and dS stay in the second cache.
  static constexpr std::int64_t keys_at_once = 64, queries_at_once = 512;
  static constexpr std::int64_t scratch_words(std::int64_t queries) {
    const std::int64_t most = queries < queries_at_once ? queries : queries_at_once;
    return (most + 7) / 8 * 4 * keys_at_once;
  }
};

/// One head of attention with operands in bf16. Queries, keys and width are at least 1, and every key is
/// seen.
struct PairTiles {
  /// Rounds to bf16, to nearest even; numbers that are subnormal in bf16 become 0.
  void (*pack)(const PairSource&, const PairCopies&);
  void (*forward)(const PairForward&);
  void (*backward)(const PairBackward&);
};

/// Null where oneDNN multiplies: without AVX-512 BF16, or with AMX, or after set_pair_tiles(false).
const PairTiles* pair_tiles();
/// Whether this machine has the instructions.
bool has_pair_tiles();
/// For tests and benchmarks. Throws Error(usage) if this machine does not have them.
void set_pair_tiles(bool used);

}  // namespace mxtape::cpu
