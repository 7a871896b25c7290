#pragma once
#include <span>
#include <vector>

#include "program/referee/results.h"

namespace mxtape::referee {

/// Holm 1979 (Scand. J. Stat. 6, 65-70): p values of a family, raised so that the chance of one false
/// rejection among all stays below the level that each is held to.
std::vector<double> holm(std::span<const double> p);

/// The paired differences of a sum of arms, seed by seed; losses[k] are those of its k-th arm.
std::vector<double> contrast(std::span<const double> weights, std::span<const std::vector<double>> losses);

/// Mean of `above` over mean of `below`, which are paired. The interval holds each ratio r for which the t
/// test of above - r below does not reject 0 at 5 % (Fieller 1954, J. R. Stat. Soc. B 16, 175-185). There is
/// none where that is no interval: `below` is not told from 0.
Estimate ratio_of_means(std::span<const double> above, std::span<const double> below);

/// Spearman's rank correlation, ties sharing their mean rank. The interval is tanh(atanh(rho) -+ 1.96
/// sqrt((1 + rho^2 / 2) / (n - 3))) (Bonett & Wright 2000, Psychometrika 65, 23-28); there is none below five
/// pairs, or where |rho| is 1.
Estimate rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace mxtape::referee
