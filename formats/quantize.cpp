#include "formats/quantize.h"

#include "formats/decide_by_average.h"
#include "formats/quantize_blocks.h"

namespace mxtape {
namespace {

struct ValueSink {
  float* y;
  void block(const BlockRange&, const BlockScale&) {}
  void element(std::int64_t i, float rounded, const BlockScale& s) { y[i] = value_of(s, rounded); }
};

}  // namespace

float quantize_reference(float* y, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
                         const Quantizer& q, const DrawKey& key) {
  ValueSink sink{y};
  return quantize_blocks(
      x, rows, cols, axis, q, [&](std::int64_t i) { return decision(q, key, i, x); }, sink);
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
