#pragma once
#include <string>
#include <string_view>

#include "formats/quantize_blocks.h"

namespace mxtape {

/// What backward takes for the derivative of a rounding, which has none.
enum class SteKind : std::uint8_t {
  identity,  ///< 1
  mask,      ///< 1, but 0 where |x / S| is beyond the largest element (Quartet, arXiv:2505.14669)
  dge,       ///< of a curve between the steps (Wang et al. 2025, arXiv:2501.17116, section 3.1)
};

struct StraightThrough {
  SteKind kind = SteKind::identity;
  float k = 5;     ///< dge: 1 is a line, the larger the steeper the curve midway between two elements
  float most = 3;  ///< dge: largest derivative
  constexpr bool operator==(const StraightThrough&) const = default;
};

/// "ste=mask", "ste=dge k=5 most=3". Throws Error(usage) with the word, what is wanted and the nearest name.
StraightThrough parse_straight_through(std::string_view text);
std::string to_text(const StraightThrough&);
/// True if `text` means a straight-through kind, well written or not, rather than a number format.
constexpr bool is_straight_through_text(std::string_view text) { return text.starts_with("ste"); }

/// 2^y for |y| < 1000, and log2 of a positive normal number, to some 1e-14: the same bits on every device.
MXT_HD constexpr double exp2_by_series(double y) {
  const int whole = int(y < 0 ? y - 0.5 : y + 0.5);
  const double z = (y - whole) * 0.693147180559945309;
  double sum = 1;
  for (int i = 17; i > 0; --i) sum = 1 + sum * z / i;
  for (int i = 0; i < whole; ++i) sum *= 2;
  for (int i = 0; i > whole; --i) sum /= 2;
  return sum;
}
MXT_HD constexpr double log2_by_series(float x) {
  const int exponent = int(bits_of(x) >> 23) - 127;
  const double m = float_of((bits_of(x) & 0x7fffffu) | 0x3f800000u);
  const double s = (m - 1) / (m + 1), square = s * s;  // ln m = 2 (s + s^3 / 3 + ...), s <= 1/3
  double sum = 0;
  for (int i = 29; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  return exponent + 2 * s * sum * 1.442695040888963407;
}

/// The derivative at x, an element of a block with the scale s. With v = |alpha x / S| between two elements a
/// step d apart, the lower one l, t = (v - l) / d, dge is that of
///   f(t) = 1/2 + sign(2 t - 1) |2 t - 1|^(1/k) / 2,   f'(t) = |2 t - 1|^(1/k - 1) / k,
/// held at `most`, and 1 for elements with f32's exponents. Beyond the largest element f is constant: 0.
MXT_HD constexpr float straight_through_factor(const StraightThrough& ste, const BlockRule& r,
                                               const BlockScale& s, float x) {
  if (ste.kind == SteKind::identity) return 1;
  const float scaled = scaled_by(s, x);
  if (scaled > (r.saturates ? r.grid.highest : r.element_max) + s.zero) return 0;
  if (scaled < (r.saturates ? r.grid.lowest : -r.element_max) + s.zero) return 0;
  if (ste.kind == SteKind::mask || r.wide || scaled != scaled) return 1;
  Grid grid = r.grid;
  if (s.zero != 0) ++grid.min_exponent, ++grid.mantissa_bits;  // as round_in_block()
  const float steps = float_of(bits_of(scaled) & 0x7fffffffu) * power_of_two(-quantum_exponent(grid, scaled));
  const float from_middle = 2 * (steps - float(std::int32_t(steps))) - 1;
  const float u = from_middle < 0 ? -from_middle : from_middle;
  if (u == 0) return ste.most;
  const auto slope = float(exp2_by_series((1 / double(ste.k) - 1) * log2_by_series(u)) / double(ste.k));
  return slope < ste.most ? slope : ste.most;
}

/// The definition of a gradient through a rounding, for quantize_block(): instead of its elements' values it
/// writes dx[i] = dy[i] times the factor of x[i]. dx may be dy.
struct StraightThroughSink {
  float* dx;
  const float* dy;
  const float* x;
  const BlockRule& rule;
  StraightThrough ste;
  void block(const BlockRange&, const BlockScale&) {}
  void element(std::int64_t i, float, const BlockScale& s) {
    dx[i] = dy[i] * straight_through_factor(ste, rule, s, x[i]);
  }
};

}  // namespace mxtape
