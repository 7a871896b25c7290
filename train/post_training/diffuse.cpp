#include "train/post_training/diffuse.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "formats/quantize_blocks.h"

namespace mxtape {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Columns that are worked on before the others hear of their errors, where no block says how many.
constexpr std::int64_t columns_of_a_cast = 32;
/// Rows of one task: a fixed cut, so that sums are the same at any number of threads.
constexpr std::int64_t rows_of_a_task = 16;

bool differ(float a, float b) { return !(std::abs(a - b) <= 0x1p-20f * std::abs(a)); }

/// What holds for all blocks of a weight.
struct Weight {
  const float* values;
  std::int64_t n, k;
  BlockRule rule;
  std::int64_t along, across;
  float encode = 1, multiplier = 1;
  std::int64_t largest = -1;  ///< index of the weight that the tensor's scale comes from
};

Weight weight_of(const float* w, std::int64_t n, std::int64_t k, const Quantizer& q) {
  Weight weight{.values = w, .n = n, .k = k, .rule = block_rule(q), .along = columns_of_a_cast, .across = 1};
  if (q.scale != ScaleKind::none) {
    const BlockExtent extent = block_extent(q.block, n, k, Axis::row);
    weight.along = std::min(extent.cols, k);
    weight.across = std::min(extent.rows, n);
  }
  if (q.has_tensor_scale()) {
    weight.encode = tensor_encode_scale(weight.rule, largest_magnitude(BlockOfMatrix{w, k, {0, n, 0, k}}, 0));
    weight.largest =
        std::max_element(w, w + n * k, [](float a, float b) { return std::abs(a) < std::abs(b); }) - w;
  }
  weight.multiplier = 1 / weight.encode / q.alpha;
  return weight;
}

/// One block, or a few columns of a row if elements are rounded without a scale: which elements are rounded
/// as they were when the scale was decided.
enum class Pinned : std::uint8_t { none, extremes, all };

class Block {
 public:
  /// `at_hand` [height, width]: the weights when the first column is reached; `paths`: their part of U.
  Block(const Weight& weight, BlockRange place, Eigen::Ref<const RowMajor> at_hand,
        Eigen::Ref<const RowMajor> paths)
      : weight_(weight), place_(place), at_hand_(at_hand), paths_(paths) {
    decided_.resize(std::size_t(at_hand.size()));
    for (std::int64_t i = 0; i < at_hand.size(); ++i) decided_[std::size_t(i)] = float(at_hand.data()[i]);
    const std::int64_t row = weight.largest / weight.k - place.row,
                       col = weight.largest % weight.k - place.col;
    if (weight.largest >= 0 && row >= 0 && row < height() && col >= 0 && col < width()) {
      kept_ = row * width() + col;
      decided_[std::size_t(kept_)] = weight.values[weight.largest];
    }
    scale_ = scale_of(decided_);
    const auto [least, most] = std::minmax_element(decided_.begin(), decided_.end());
    lowest_ = least - decided_.begin(), highest_ = most - decided_.begin();
  }

  /// Rounds column after column into values() and errors().
  void round() {
    attempt(Pinned::none);
    if (weight_.rule.scale == ScaleKind::none || holds()) return;
    const std::vector<float> first = values_;
    const RowMajor first_errors = errors_;
    for (const Pinned pinned : {Pinned::extremes, Pinned::all}) {
      attempt(pinned);
      if (holds()) return;
    }
    values_ = first, errors_ = first_errors;  // not even a direct cast would hold
  }

  const std::vector<float>& values() const { return values_; }  // [height, width]
  const RowMajor& errors() const { return errors_; }            // [height, width], over U's diagonal

 private:
  std::int64_t height() const { return place_.row_end - place_.row; }
  std::int64_t width() const { return place_.col_end - place_.col; }

  BlockScale scale_of(const std::vector<float>& values) const {
    return scale_of_block(weight_.rule, weight_.encode,
                          BlockOfMatrix{values.data(), width(), {0, height(), 0, width()}},
                          [] { return 0u; });
  }
  float rounded(const BlockScale& scale, float v) const {
    return value_of(scale, round_in_block(weight_.rule, scale, v, 0)) * weight_.multiplier;
  }

  bool is_pinned(Pinned pinned, std::int64_t i) const {
    return i == kept_ || pinned == Pinned::all ||
           (pinned == Pinned::extremes && (i == lowest_ || i == highest_));
  }

  void attempt(Pinned pinned) {
    RowMajor work = at_hand_;
    errors_.resize(height(), width());
    values_.resize(decided_.size());
    for (std::int64_t c = 0; c < width(); ++c) {
      const std::int64_t after = width() - c - 1;
      for (std::int64_t r = 0; r < height(); ++r) {
        const std::int64_t i = r * width() + c;
        const float v = is_pinned(pinned, i) ? decided_[std::size_t(i)] : float(work(r, c));
        values_[std::size_t(i)] = rounded(scale_, v);
        errors_(r, c) = (work(r, c) - double(values_[std::size_t(i)])) / paths_(c, c);
        work.row(r).tail(after) -= errors_(r, c) * paths_.row(c).tail(after);
      }
    }
  }

  /// True if rounding the values again, with the scale that they have, changes none.
  bool holds() const {
    const BlockScale again = scale_of(values_);
    return std::ranges::all_of(values_, [&](float v) { return !differ(v, rounded(again, v)); });
  }

  const Weight& weight_;
  BlockRange place_;
  Eigen::Ref<const RowMajor> at_hand_, paths_;
  std::vector<float> decided_, values_;
  RowMajor errors_;
  BlockScale scale_{};
  std::int64_t lowest_ = 0, highest_ = 0, kept_ = -1;
};

/// Rows [begin, end) of `weight`: a whole number of blocks, or the last.
void diffuse_rows(const Weight& weight, std::int64_t begin, std::int64_t end,
                  const Eigen::Map<const RowMajor>& paths, float* values) {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const std::int64_t k = weight.k;
  RowMajor work = Eigen::Map<const Floats>(weight.values + begin * k, end - begin, k).cast<double>();
  for (std::int64_t first = 0; first < k; first += weight.along) {
    const std::int64_t width = std::min(weight.along, k - first), after = k - first - width;
    const RowMajor own_paths = paths.block(first, first, width, width);
    RowMajor errors(end - begin, width);
    for (std::int64_t row = begin; row < end; row += weight.across) {
      const std::int64_t height = std::min(weight.across, end - row);
      const RowMajor at_hand = work.block(row - begin, first, height, width);
      Block block(weight, {row, row + height, first, first + width}, at_hand, own_paths);
      block.round();
      errors.middleRows(row - begin, height) = block.errors();
      for (std::int64_t r = 0; r < height; ++r)
        std::copy_n(block.values().begin() + r * width, width, values + (row + r) * k + first);
    }
    work.rightCols(after).noalias() -= errors * paths.block(first, first + width, width, after);
  }
}

}  // namespace

std::vector<float> cast_directly(const float* w, std::int64_t n, std::int64_t k, const Quantizer& q) {
  Quantizer nearest = q;
  nearest.rounding = Rounding::even;
  std::vector<float> values(std::size_t(n * k));
  const float multiplier = quantize_reference(values.data(), w, n, k, Axis::row, nearest, {});
  for (float& v : values) v *= multiplier;
  return values;
}

Diffused diffuse(const float* w, std::int64_t n, std::int64_t k, const Quantizer& q,
                 const std::vector<double>& paths) {
  require(!q.has_group_scale(), ExitCode::usage,
          "format '{}': a scale of many blocks cannot be decided before the last of them is reached; want "
          "outer=tensor or another scale",
          to_text(q));
  require(std::int64_t(paths.size()) == k * k, "diffuse: {} numbers of paths, want {} x {}", paths.size(), k,
          k);
  const auto bad = std::find_if(w, w + n * k, [](float v) { return !std::isfinite(v); });
  require(bad == w + n * k, ExitCode::diverged, "its weight holds {} at [{}, {}]", *bad, (bad - w) / k,
          (bad - w) % k);
  Quantizer nearest = q;
  nearest.rounding = Rounding::even;
  const Weight weight = weight_of(w, n, k, nearest);
  const Eigen::Map<const RowMajor> all_paths(paths.data(), k, k);
  Diffused result{.values = std::vector<float>(std::size_t(n * k))};
  const std::int64_t grain = (rows_of_a_task + weight.across - 1) / weight.across * weight.across;
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    diffuse_rows(weight, begin, end, all_paths, result.values.data());
  });
  const std::vector<float> again = cast_directly(result.values.data(), n, k, q);
  for (std::size_t i = 0; i < again.size(); ++i) result.moved += differ(result.values[i], again[i]);
  return result;
}

std::int64_t diffusion_bytes(std::int64_t n, std::int64_t k) {
  // The Gram matrix, its factor, and U, in double; w, the result, a direct cast and a difference in f32.
  constexpr std::int64_t matrices = 4, weights = 4;
  return 8 * matrices * k * k + 4 * weights * n * k;
}

}  // namespace mxtape
