#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// How the loss falls with the size of a model and the tokens that it sees, and what of both a way of training
// is worth.
namespace mxtape::referee {

/// L(N, D) = (A / (effN N)^alpha + B / (effD D)^beta)^gamma + floor  [nats per token]
/// N: non-embedding parameters; D: tokens. effN and effD are 1 for the baseline. Of another arm they say how
/// large a share of its parameters and of its tokens the baseline would need for the same loss.
/// Source: Castro et al. 2025, arXiv:2505.14669, section 4.
struct ScalingLaw {
  double A = 0, alpha = 0, B = 0, beta = 0, gamma = 1, floor = 0;

  double loss(double parameters, double tokens, double eff_n = 1, double eff_d = 1) const;
  /// The k at which an arm pays: trained on k times the tokens it has the loss of the baseline's D tokens. An
  /// arm whose step is k times as fast does so in the same time. Infinite if no number of tokens makes up for
  /// effN.
  double break_even(double parameters, double tokens, double eff_n, double eff_d) const;
};

/// The last validation loss of one run.
struct LossOfRun {
  std::size_t arm = 0;  ///< 0 is the baseline
  std::uint64_t seed = 0;
  double parameters = 0, tokens = 0, loss = 0;
};

/// An arm at a point, over the seeds that it shares with the baseline.
struct LawResidual {
  std::size_t arm = 0;
  double parameters = 0, tokens = 0;
  double log_ratio = 0;  ///< of the baseline log(L / law); of another arm log(L / L_baseline) less the law's
};

struct LawFit {
  ScalingLaw law;
  std::vector<double> eff_n, eff_d;  ///< by arm; 1 of the baseline, NaN of an arm with less than three points
  std::vector<double> delta;         ///< of Huber's loss, by arm
  double objective = 0;              ///< the sum of the baseline's Huber losses
  std::vector<LawResidual> residuals;
  /// The largest |log_ratio| of the baseline: how far the law is off where it was fitted.
  double worst_residual() const;
};

/// Why these runs cannot be held to a law; empty: they can. It takes three sizes, three lengths, and more
/// points of the baseline than the law has parameters.
std::string no_law_because(std::span<const LossOfRun>, bool floor_known);

/// Two fits. The law's parameters minimise, over the baseline's points, the sum of Huber(log L - log law); L
/// is the mean over a point's seeds. Then each arm's effN and effD minimise the same of log(L / L_baseline)
/// less what the law says of it: pairs cancel what seeds share, and where the law itself is off. Arms do not
/// change each other's figures.
/// Huber's delta is 1e-3 (Hoffmann et al. 2022, arXiv:2203.15556, section 3.3), or 1.345 standard errors of a
/// point where these are more. A delta far below the noise makes medians of means: less precise, with
/// intervals that are too wide. With 1.345 it takes 5 % more of the variance than least squares (Huber 1964,
/// Ann. Math. Stat. 35, 73-101).
/// MINPACK's Levenberg-Marquardt in logarithms of the parameters, from 54 starts, three times as many if the
/// floor is fitted. Throws Error if no_law_because() says why.
LawFit fit_law(std::span<const LossOfRun>, std::optional<double> floor);
/// The same with a weight for each run, from one start and with its deltas. Points whose runs all weigh 0
/// keep their means.
LawFit refit_law(const LawFit& near, std::span<const LossOfRun>, std::optional<double> floor,
                 std::span<const double> weights);

}  // namespace mxtape::referee
