#pragma once
#include <cmath>

#include "program/referee/statistics.h"

namespace mxtape::referee::test {

/// What the law says, by its formula.
inline double loss(const ScalingLaw& law, double parameters, double tokens, double eff_n = 1,
                   double eff_d = 1) {
  const double sum =
      law.A * std::pow(eff_n * parameters, -law.alpha) + law.B * std::pow(eff_d * tokens, -law.beta);
  return std::pow(sum, law.gamma) + law.floor;
}

}  // namespace mxtape::referee::test
