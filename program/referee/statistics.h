#pragma once
#include <optional>
#include <span>
#include <vector>

#include "program/sweep/results.h"

namespace mxtape::referee {

/// Holm 1979 (Scand. J. Stat. 6, 65-70): the p value of one of a family, raised so that the chance of one
/// false rejection among all stays below the level that each is held to.
double holm(double p, std::span<const double> family);

/// Spearman's rank correlation, ties sharing their mean rank. The interval is tanh(atanh(rho) -+ 1.96
/// sqrt((1 + rho^2 / 2) / (n - 3))) (Bonett & Wright 2000, Psychometrika 65, 23-28); there is none below five
/// pairs, or where |rho| is 1.
Estimate rank_correlation(std::span<const double> x, std::span<const double> y);

/// Losses of one seed along one axis, which rises: tokens, parameters, or seconds.
struct LossCurve {
  std::vector<double> x, loss;

  /// Between its first and last x; none elsewhere. In log x, by the monotone cubic of Fritsch & Butland 1984
  /// (SIAM J. Sci. Stat. Comput. 5, 300-304) with three-point slopes at the ends, as SciPy's
  /// PchipInterpolator: a straight line between lengths a factor of two apart would miss a tenth of a small
  /// efficiency's distance from 1.
  std::optional<double> loss_at(double x) const;
  /// The x of a loss. None where the curve does not have it, or has it more than once.
  std::optional<double> x_at(double loss) const;
};

/// Mean over the seeds, of the logarithm, of r = x' / x: x' is where the baseline has the loss that the arm
/// has at x. Where its curve does not reach that loss, r = x / x'', x'' being where the arm has the loss that
/// the baseline has at x. Every seed must have its r. With the two in each other's place it is the break-even
/// speed-up: how many times the baseline's tokens an arm needs.
/// Both have a curve for each seed. Only `ratio` and `why` are set.
Efficiency efficiency_at(double x, std::span<const LossCurve> arm, std::span<const LossCurve> baseline);

}  // namespace mxtape::referee
