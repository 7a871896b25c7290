#include "formats/quantize.h"

#include <algorithm>

#include "formats/quantize_blocks.h"

namespace mxtape {
namespace {

struct BlockSummary {
  std::uint32_t magnitude_bits = 0;  // magnitudes order as integers, infinities and NaN on top
  float lowest = __builtin_inff(), highest = -__builtin_inff();
  float amax() const { return float_of(magnitude_bits); }
};

BlockSummary summarize(const float* x, std::int64_t cols, const BlockRange& block, float offset) {
  BlockSummary s;
  for_each_element(block, cols, [&](std::int64_t i) {
    const float v = x[i] - offset;
    s.magnitude_bits = std::max(s.magnitude_bits, bits_of(v) & 0x7fffffffu);
    s.lowest = std::min(s.lowest, v);
    s.highest = std::max(s.highest, v);
  });
  return s;
}

/// Sum of squared errors of a block rounded to nearest even, whatever the rounding of q: a choice that saw
/// the random draws would favour one of their outcomes. Added in row-major order.
float squared_error(const BlockRule& rule, const float* x, std::int64_t cols, const BlockRange& block,
                    const BlockScale& s) {
  BlockRule nearest = rule;
  nearest.rounding = Rounding::even;
  float sum = 0;
  for_each_element(block, cols, [&](std::int64_t i) {
    const float scaled = x[i] * s.inverse;
    const float error = (round_element(nearest, scaled, 0) - scaled) * s.scale;
    sum += error * error;
  });
  return sum;
}

BlockScale with_largest_at(const Quantizer& q, const BlockRule& rule, float amax, float element_max,
                           float encode) {
  return q.scale == ScaleKind::floating ? floating_scale(rule, amax, element_max, encode)
                                        : f32_scale(rule, amax, element_max);
}

struct ValueSink {
  float* y;
  void block(const BlockRange&, const BlockScale&) {}
  void element(std::int64_t i, float rounded, const BlockScale& s) { y[i] = value_of(s, rounded); }
};

}  // namespace

BlockScale scale_of_block(const Quantizer& q, const BlockRule& rule, const float* x, std::int64_t cols,
                          const BlockRange& block, float encode) {
  BlockSummary summary = summarize(x, cols, block, 0);
  float offset = 0;
  if (q.has_offset && summary.amax() <= 0x1.fffffep127f) {
    offset = block_midpoint(summary.lowest, summary.highest);
    summary = summarize(x, cols, block, offset);
  }
  if (q.scale == ScaleKind::power_of_two) {
    BlockScale s = power_of_two_scale(rule, summary.amax());
    s.offset = offset;
    return s;
  }
  BlockScale s = with_largest_at(q, rule, summary.amax(), rule.element_max, encode);
  if (q.four_over_six) {
    const BlockScale four = with_largest_at(q, rule, summary.amax(), 4, encode);
    if (squared_error(rule, x, cols, block, four) < squared_error(rule, x, cols, block, s)) s = four;
  }
  s.offset = offset;
  return s;
}

float encode_of_tensor(const Quantizer& q, const BlockRule& rule, const float* x, std::int64_t count) {
  if (q.scale != ScaleKind::floating) return 1;
  return tensor_encode_scale(rule, summarize(x, count, {0, 1, 0, count}, 0).amax());
}

float quantize_reference(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                         const Quantizer& q, const DrawKey& key) {
  ValueSink sink{y};
  return quantize_blocks(
      x, rows, cols, axis, q, [&](std::int64_t i) { return draw_bits(key, std::uint64_t(i), q.sr_bits); },
      sink);
}

float quantize_with_draws(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                          const Quantizer& q, std::span<const std::uint32_t> draws) {
  require(std::int64_t(draws.size()) == rows * cols, "quantize_with_draws: {} draws for a [{}, {}] tensor",
          draws.size(), rows, cols);
  ValueSink sink{y};
  return quantize_blocks(
      x, rows, cols, axis, q, [&](std::int64_t i) { return draws[std::size_t(i)]; }, sink);
}

}  // namespace mxtape
