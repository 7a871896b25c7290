#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/round.h"

namespace mxtape::test {

/// The numbers of a format that are not negative, ascending, from the definition of its codes (OCP MX v1.0):
/// an oracle that shares nothing with round.h.
inline std::vector<double> magnitudes(const ElementFormat& f) {
  std::vector<double> values;
  if (f.is_integer()) {
    for (int k = 0; k < 1 << (f.bits() - 1); ++k) values.push_back(std::ldexp(k, f.unit_exponent));
    return values;
  }
  const int y = f.mantissa_bits, bias = (1 << (f.exponent_bits - 1)) - 1;
  for (int field = 0; field < 1 << f.exponent_bits; ++field)
    for (int mantissa = 0; mantissa < 1 << y; ++mantissa) {
      const bool top = field == (1 << f.exponent_bits) - 1;
      if (top && f.specials == Specials::ieee) continue;
      if (top && f.specials == Specials::nan_only && mantissa == (1 << y) - 1) continue;
      values.push_back(field == 0 ? std::ldexp(mantissa, 1 - bias - y)
                                  : std::ldexp((1 << y) + mantissa, field - bias - y));
    }
  return values;
}

/// Rounds |x| on the list, saturating. Distances are exact in double for the ranges the tests use.
inline double round_by_hand(const ElementFormat& f, Rounding rounding, float x) {
  auto grid = magnitudes(f);
  if (f.full_range && std::signbit(x)) grid.push_back(grid.back() + grid[1]);
  const double a = std::fabs(double(x));
  double result = grid.back();
  if (a < grid.back()) {
    const auto above = std::upper_bound(grid.begin(), grid.end(), a);
    const auto index = std::size_t(above - grid.begin()) - 1;  // grid[index] <= a < grid[index + 1]
    const double low = a - grid[index], high = grid[index + 1] - a;
    bool up = low > high;
    if (low == high) {
      const bool even_code_is_upper = (index + 1) % 2 == 0;
      // Without mantissa bits the significand rule sees 1.5 * 2^k between 1 and 2 steps: 2 is even.
      const bool by_significand = f.mantissa_bits == 0 && !f.is_integer() && f.tie == TieRule::significand;
      if (rounding == Rounding::even) up = by_significand ? index > 0 : even_code_is_upper;
      if (rounding == Rounding::away) up = true;
      if (rounding == Rounding::down) up = false;
    }
    if (rounding == Rounding::zero) up = false;
    result = grid[index + (up ? 1 : 0)];
  }
  return std::signbit(x) ? -result : result;
}

/// Formats small enough to enumerate: the named ones and some others, with their options.
inline std::vector<ElementFormat> small_formats() {
  std::vector<ElementFormat> formats;
  for (const NamedFormat& row : element_formats)
    if (row.format.bits() <= 8) formats.push_back(row.format);
  for (const char* name :
       {"e1m1", "e1m2", "e2m0", "e2m2", "e2m4", "e3m1", "e3m3", "e4m0", "e4m1", "e5m1", "int3", "int5"})
    formats.push_back(*parse_element(name));
  ElementFormat f = e3m0;
  f.tie = TieRule::code;
  formats.push_back(f);
  f = int8;
  f.full_range = true;
  formats.push_back(f);
  f = int_format(4, 3);
  f.full_range = true;
  formats.push_back(f);
  return formats;
}

}  // namespace mxtape::test
