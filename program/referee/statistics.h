#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "program/sweep/results.h"

// What losses tell: p of a family, correlations, and what of parameters and tokens a recipe is worth.
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

/// L(N, D) = (A / (effN N)^alpha + B / (effD D)^beta)^gamma + floor  [nats per token]
/// N: non-embedding parameters; D: tokens. effN and effD are 1 for the baseline. Of another arm they say how
/// large a share of its parameters and of its tokens the baseline would need for the same loss.
/// Source: Castro et al. 2025, arXiv:2505.14669, section 4.
struct ScalingLaw {
  double A = 0, alpha = 0, B = 0, beta = 0, gamma = 1, floor = 0;

  /// The k at which an arm pays: trained on k times the tokens it has the loss of the baseline's D tokens. An
  /// arm whose step is k times as fast does so in the same time. Infinite if no number of tokens makes up for
  /// effN.
  double break_even(double parameters, double tokens, double eff_n, double eff_d) const;
};

/// Last validation losses. A seed is at the same place of each list.
struct LossTable {
  struct Point {
    double parameters, tokens;
  };
  std::size_t baseline = 0;
  std::vector<Point> points;
  std::vector<std::vector<std::vector<double>>> losses;  ///< by arm, point and seed; empty: not trained there
};

struct LawFit {
  ScalingLaw law;
  std::vector<double> eff_n, eff_d;  ///< by arm; 1 of the baseline, NaN of an arm with less than three points
  std::vector<double> delta;         ///< of Huber's loss, by arm
  double objective = 0;              ///< the sum of the baseline's Huber losses
  /// By arm and point: of the baseline log(L / law), of another arm log(L / L_baseline) less the law's; NaN
  /// where it was not fitted.
  std::vector<std::vector<double>> residuals;
};

/// Two fits. The law's parameters minimise, over the baseline's points, the sum of Huber(log L - log law); L
/// is the mean over a point's seeds. Then each arm's effN and effD minimise the same of log(L / L_baseline)
/// less what the law says of it: pairs cancel what seeds share, and where the law itself is off. Arms do not
/// change each other's figures.
/// Huber's delta is 1e-3 (Hoffmann et al. 2022, arXiv:2203.15556, section 3.3), or 1.345 standard errors of a
/// point where these are more. A delta far below the noise makes medians of means: less precise, with
/// intervals that are too wide. With 1.345 it takes 5 % more of the variance than least squares (Huber 1964,
/// Ann. Math. Stat. 35, 73-101).
/// The floor is fitted even where the data's entropy is known: a model that sees a window of the text
/// cannot reach it. MINPACK's Levenberg-Marquardt in logarithms of the parameters, from 162 starts; with
/// `near`, from that fit alone and with its deltas. Throws Error unless the baseline has three sizes, three
/// lengths, and more points than the law has parameters.
LawFit fit_law(const LossTable&, const LawFit* near = nullptr);

/// A fit, and how far it moves with the seeds. Runs of one size and seed move together: they share initial
/// weights, batches and, on a trunk, steps. Runs of different sizes are taken as independent.
/// A draw takes, at each size with n seeds, n - 1 of them with replacement and fits again; with n of them the
/// variance of a mean would come out (n - 1) / n too small (Rao & Wu 1988, J. Am. Stat. Assoc. 83, 231-241).
/// Which ones is counted: element `place` of the Philox stream (0, sampling, size, draw).
struct LawBootstrap {
  static constexpr std::size_t default_draws = 1000;

  /// Throws Error as fit_law() does.
  explicit LawBootstrap(const LossTable&, std::size_t draws = default_draws);

  /// A positive quantity of the fit. Its interval, in the logarithm:
  ///   value + (t / 1.96) (the 2.5th and 97.5th percentile of the draws - value)
  /// Few seeds make percentiles too narrow, as a normal distribution is too narrow for the mean of few. t is
  /// Student's, with as many degrees of freedom as there are seeds less one, summed over the sizes. There is
  /// none if a size has one seed, or if its end is infinite.
  Estimate estimate(const std::function<double(const LawFit&)>& quantity) const;

  LawFit fit;
  std::vector<LawFit> fits;  ///< of the draws; none if a size has one seed
  int freedom = 0;
};

}  // namespace mxtape::referee
