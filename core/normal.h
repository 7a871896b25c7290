#pragma once
#include "core/random.h"

namespace mxtape {

// Normal draws with additions, multiplications, divisions and square roots only, each correctly rounded by
// IEEE 754: the same bits on every machine and device, which the log and cos of C libraries do not promise.

/// Natural logarithm of a normal x > 0: log x = e log 2 + 2 artanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt
/// 2). Relative error below 2^-48.
MXT_HD constexpr double portable_log(double x) {
  const std::uint64_t u = __builtin_bit_cast(std::uint64_t, x);
  int e = int(u >> 52) - 1023;
  double m = __builtin_bit_cast(double, (u & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) m *= 0.5, ++e;
  const double s = (m - 1) / (m + 1);
  const double square = s * s;  // below 0.0295: eleven terms leave less than 0.0295^11 / 23 < 2^-60
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return double(e) * 0.693147180559945309 + 2 * s * series;
}

struct CosSin {
  double cos, sin;
};
/// cos and sin of 2 pi u, u in [0, 1), from their Taylor series on an eighth of the turn; error below 2^-50.
MXT_HD constexpr CosSin cos_sin_of_turns(double u) {
  const int quarter = int(u * 4 + 0.5);
  const double x = (u - quarter * 0.25) * 6.283185307179586477;  // the difference is exact; |x| <= pi / 4
  const double square = x * x;  // below 0.62: the next terms are below 0.62^9 / 18! < 2^-58
  double c = 1, s = 1;
  for (int k = 16; k >= 2; k -= 2) c = 1 - square / ((k - 1) * k) * c;
  for (int k = 17; k >= 3; k -= 2) s = 1 - square / ((k - 1) * k) * s;
  s *= x;
  switch (quarter & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

/// Two independent standard normal numbers (Box & Muller 1958) for the elements 2 pair and 2 pair + 1 of
/// `key`: radius sqrt(-2 log u) with u in (0, 1], so the largest magnitude is sqrt(64 log 2) = 6.66.
struct NormalPair {
  float first, second;
};
MXT_HD NormalPair normal_pair(const DrawKey& key, std::uint64_t pair) {
  const auto group = key.group(pair >> 1);
  const std::size_t word = 2 * (pair & 1);
  const double radius = __builtin_sqrt(-2 * portable_log((double(group[word]) + 1) * 0x1p-32));
  const auto [c, s] = cos_sin_of_turns(double(group[word + 1]) * 0x1p-32);
  return {float(radius * c), float(radius * s)};
}

}  // namespace mxtape
