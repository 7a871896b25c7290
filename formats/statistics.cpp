#include "formats/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/codec/block_codec.h"
#include "formats/decide_by_average.h"

namespace mxtape {
namespace {

/// Errors in units that the multiplier turns into x's.
struct StatisticsSink {
  const float* x;
  std::int64_t cols;
  Grid grid;
  bool has_blocks;
  std::vector<float> values{};
  ErrorStatistics result{};
  std::int64_t clipped = 0;
  std::array<std::int64_t, 3> spread_over{};

  void block(const BlockRange& range, const BlockScale& s) {
    if (!has_blocks) return;
    if (s.scale > 0) ++result.scales[std::ilogb(s.scale) - std::ilogb(s.lift)];
    float largest = 0, smallest = INFINITY;
    for_each_element(range, cols, [&](std::int64_t i) {
      const float magnitude = std::fabs(x[i]);
      if (magnitude == 0 || !std::isfinite(magnitude)) return;
      largest = std::max(largest, magnitude), smallest = std::min(smallest, magnitude);
    });
    for (std::size_t k = 0; k < spread_limits.size(); ++k)
      if (largest > spread_limits[k] * smallest) ++spread_over[k];
  }
  void element(std::int64_t i, float rounded, const BlockScale& s) {
    values[std::size_t(i)] = value_of(s, rounded);
    const float scaled = scaled_by(s, x[i]) - s.zero;
    clipped += scaled > grid.highest || scaled < grid.lowest;
  }
};

/// The f32 numbers above the blocks: of the tensor, or of each group.
std::int64_t outer_scales(const Quantizer& q, std::int64_t rows, std::int64_t cols, Axis axis) {
  std::int64_t groups = 0;
  if (q.has_group_scale())
    for_each_block(rows, cols, group_extent(q, rows, cols, axis), [&](const BlockRange&) { ++groups; });
  return q.has_group_scale() ? groups : q.has_multiplier();
}

}  // namespace

double ErrorStatistics::relative_rmse() const { return std::sqrt(nmse()); }
double ErrorStatistics::sqnr_db() const { return -10 * std::log10(nmse()); }

std::optional<double> bits_per_block(const Quantizer& q) {
  const double elements = double(q.block.along) * q.block.across;  // 0: the whole extent of an axis
  if (q.scale == ScaleKind::none || elements == 0) return {};
  return q.bits_per_element() * elements;
}

double memory_saved(const Quantizer& q, double bits) { return 1 - q.bits_per_element() / bits; }

ErrorStatistics error_statistics(const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                                 const Quantizer& q, const DrawKey& key, std::optional<float> tensor_amax) {
  StatisticsSink sink{x, cols, grid_of(q.element), q.scale != ScaleKind::none};
  sink.values.resize(std::size_t(rows * cols));
  const double multiplier = quantize_blocks(
      x, rows, cols, axis, q, [&](std::int64_t i) { return decision(q, key, i, x); }, sink, tensor_amax);
  ErrorStatistics& r = sink.result;
  r.count = rows * cols;
  double squares = 0, rounded = 0, product = 0, errors = 0, magnitudes = 0, largest = 0;
  std::int64_t flushed = 0;
  for (std::int64_t i = 0; i < r.count; ++i) {
    const double v = x[i], y = sink.values[std::size_t(i)] * multiplier;
    if (!std::isfinite(v) || !std::isfinite(y)) {
      ++r.nonfinite;
      continue;
    }
    squares += v * v;
    rounded += y * y;
    product += v * y;
    errors += (y - v) * (y - v);
    magnitudes += std::fabs(y - v);
    largest = std::max(largest, std::fabs(v));
    r.max_abs_error = std::max(r.max_abs_error, std::fabs(y - v));
    if (v != 0 && y == 0) ++flushed;
  }
  const auto share = [](auto part, auto of) { return of > 0 ? double(part) / double(of) : 0; };
  const auto finite = double(std::max<std::int64_t>(r.count - r.nonfinite, 1));
  r.mean_square = squares / finite;
  r.mse = errors / finite;
  r.mae = magnitudes / finite;
  r.crest_factor = squares > 0 ? largest / std::sqrt(r.mean_square) : 0;
  r.cosine = squares > 0 && rounded > 0 ? product / std::sqrt(squares * rounded) : 0;
  r.bias = squares > 0 ? product / squares - 1 : 0;
  r.clipped = share(sink.clipped, r.count);
  r.flushed = share(flushed, r.count);
  const PackedLayout packed = packed_layout(q, rows, cols, axis);
  r.blocks = packed.blocks;
  for (std::size_t k = 0; k < spread_limits.size(); ++k)
    r.spread_over[k] = share(sink.spread_over[k], r.blocks);
  r.bits_per_element = q.bits_per_element();
  r.bytes = packed.codes + packed.scales + packed.offsets + 4 * outer_scales(q, rows, cols, axis);
  return r;
}

}  // namespace mxtape
