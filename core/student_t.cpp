#include "core/student_t.h"

#include <cmath>

#include "core/error.h"

namespace mxtape {
namespace {

/// B(freedom / 2, 1 / 2), from B(1/2, 1/2) = pi and B(1, 1/2) = 2 by B(a + 1, b) = B(a, b) a / (a + b).
double beta_with_half(int freedom) {
  const bool odd = freedom % 2 == 1;
  double beta = odd ? 3.14159265358979324 : 2;
  for (double a = odd ? 0.5 : 1; 2 * a < freedom; a += 1) beta *= a / (a + 0.5);
  return beta;
}

/// I_x(a, b) a B(a, b) / (x^a (1 - x)^b) = sum over n of (a + b)(a + b + 1) ... x^n / ((a + 1)(a + 2) ...)
/// (Abramowitz & Stegun 26.5.4). All terms are positive.
double beta_series(double x, double a, double b) {
  double sum = 1, term = 1;
  for (double n = 0;; n += 1) {
    const double ratio = x * (a + b + n) / (a + 1 + n);
    term *= ratio;
    sum += term;
    // From here on the ratios fall, or stay below x: what is left is below term ratio / (1 - ratio).
    if (ratio < 0.9 && term < 0x1p-57 * sum) return sum;
  }
}

}  // namespace

double student_two_sided(double t, int freedom) {
  require(freedom >= 1 && !std::isnan(t), "student_two_sided: t = {}, {} degrees of freedom", t, freedom);
  const double nu = freedom, a = nu / 2, square = t * t;
  if (std::isinf(square)) return 0;
  const double x = nu / (nu + square), y = square / (nu + square), beta = beta_with_half(freedom);
  const double power = std::pow(x, a) * std::sqrt(y);
  if (x <= 0.75) return power / (a * beta) * beta_series(x, a, 0.5);
  return 1 - power / (0.5 * beta) * beta_series(y, 0.5, a);
}

double student_quantile(double confidence, int freedom) {
  require(confidence > 0 && confidence < 1, "student_quantile: confidence {}", confidence);
  const double p = 1 - confidence;
  double low = 0, high = 1;
  while (student_two_sided(high, freedom) > p) low = high, high *= 2;
  for (;;) {  // until the two are neighbours
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    (student_two_sided(middle, freedom) > p ? low : high) = middle;
  }
}

}  // namespace mxtape
