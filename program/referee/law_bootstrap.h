#pragma once
#include <functional>

#include "program/referee/law.h"

namespace mxtape::referee {

/// A fit, and how far it moves with the seeds. Runs of one size and seed move together: they share initial
/// weights, batches and, on a trunk, steps. Runs of different sizes are taken as independent.
/// A draw takes, at each size with n seeds, n - 1 of them with replacement and fits again; with n of them the
/// variance of a mean would come out (n - 1) / n too small (Rao & Wu 1988, J. Am. Stat. Assoc. 83, 231-241).
/// Which ones is counted: element `place` of the Philox stream (0, sampling, size, draw).
class LawBootstrap {
 public:
  static constexpr std::size_t default_draws = 1000;

  /// Throws Error as fit_law() does.
  LawBootstrap(const std::vector<LossOfRun>&, std::optional<double> floor, std::size_t draws = default_draws);

  const LawFit& fit() const { return fit_; }

  /// The 95 % interval of a positive quantity of the fit; none if a size has one seed. In the logarithm:
  ///   estimate + (t / 1.96) (the 2.5th and 97.5th percentile of the draws - estimate)
  /// Few seeds make percentiles too narrow, as a normal distribution is too narrow for the mean of few. t is
  /// Student's, with as many degrees of freedom as there are seeds less one, summed over the sizes.
  std::optional<std::array<double, 2>> interval(const std::function<double(const LawFit&)>& quantity) const;

 private:
  LawFit fit_;
  std::vector<LawFit> draws_;
  int freedom_ = 0;
};

}  // namespace mxtape::referee
