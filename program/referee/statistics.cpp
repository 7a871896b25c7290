#include "program/referee/statistics.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace mxtape::referee {
namespace {

/// Less their mean; ties share theirs.
Eigen::VectorXd ranks(std::span<const double> x) {
  Eigen::VectorXd ranks(std::ssize(x));
  for (std::size_t i = 0; i < x.size(); ++i)
    ranks[std::ptrdiff_t(i)] = double(std::ranges::count_if(x, [&](double other) { return other < x[i]; })) +
                               double(std::ranges::count(x, x[i])) / 2 - double(x.size()) / 2;
  return ranks;
}

/// Slope of the cubic at an end: of the parabola through three points, unless it would turn the curve.
double end_slope(double h0, double h1, double d0, double d1) {
  const double slope = ((2 * h0 + h1) * d0 - h0 * d1) / (h0 + h1);
  if (slope * d0 <= 0) return 0;
  return d0 * d1 <= 0 && std::abs(slope) > 3 * std::abs(d0) ? 3 * d0 : slope;
}

/// The curve between its points i and i + 1, at this share of the way in log x.
double between(const LossCurve& curve, std::size_t i, double share) {
  const std::size_t last = curve.x.size() - 1;
  const auto width = [&](std::size_t k) { return std::log(curve.x[k + 1] / curve.x[k]); };
  const auto chord = [&](std::size_t k) { return (curve.loss[k + 1] - curve.loss[k]) / width(k); };
  const auto slope = [&](std::size_t k) {
    if (last == 1) return chord(0);
    if (k == 0) return end_slope(width(0), width(1), chord(0), chord(1));
    if (k == last) return end_slope(width(k - 1), width(k - 2), chord(k - 1), chord(k - 2));
    if (chord(k - 1) * chord(k) <= 0) return 0.0;
    const double w = 2 * width(k) + width(k - 1), v = width(k) + 2 * width(k - 1);
    return (w + v) / (w / chord(k - 1) + v / chord(k));
  };
  const double t = share, h = width(i), t2 = t * t, t3 = t2 * t;
  return (2 * t3 - 3 * t2 + 1) * curve.loss[i] + (t3 - 2 * t2 + t) * h * slope(i) +
         (3 * t2 - 2 * t3) * curve.loss[i + 1] + (t3 - t2) * h * slope(i + 1);
}

}  // namespace

double holm(double p, std::span<const double> family) {
  double corrected = 0;
  for (const double lower : family)
    if (lower <= p)
      corrected = std::max(
          corrected, lower * double(std::ranges::count_if(family, [&](double q) { return q >= lower; })));
  return std::min(1.0, corrected);
}

Estimate rank_correlation(std::span<const double> x, std::span<const double> y) {
  const Eigen::VectorXd of_x = ranks(x), of_y = ranks(y);
  const double n = double(x.size()), rho = of_x.dot(of_y) / std::sqrt(of_x.dot(of_x) * of_y.dot(of_y));
  if (!std::isfinite(rho)) return {.why = "all values of one are the same"};
  if (n < 5) return {.value = rho, .why = "it takes five pairs"};
  if (std::abs(rho) >= 1) return {.value = rho, .why = "all ranks agree: there is no spread"};
  const double z = std::atanh(rho), half = 1.959963984540054 * std::sqrt((1 + rho * rho / 2) / (n - 3));
  return {.value = rho, .interval95 = {{std::tanh(z - half), std::tanh(z + half)}}};
}

std::optional<double> LossCurve::loss_at(double at) const {
  for (std::size_t i = 0; i + 1 < x.size(); ++i)
    if (x[i] <= at && at <= x[i + 1])
      return between(*this, i, std::log(at / x[i]) / std::log(x[i + 1] / x[i]));
  return std::nullopt;
}

std::optional<double> LossCurve::x_at(double wanted) const {
  std::vector<double> found;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (loss[i] == wanted) found.push_back(x[i]);
    if (i + 1 == x.size() || (loss[i] - wanted) * (loss[i + 1] - wanted) >= 0) continue;
    double low = 0, high = 1;
    for (double middle; low < (middle = low + (high - low) / 2) && middle < high;)
      ((between(*this, i, middle) > wanted) == (loss[i] > wanted) ? low : high) = middle;
    found.push_back(x[i] * std::pow(x[i + 1] / x[i], high));
  }
  return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
}

Efficiency efficiency_at(double x, std::span<const LossCurve> arm, std::span<const LossCurve> baseline) {
  std::vector<double> logs;
  for (std::size_t seed = 0; seed < arm.size(); ++seed) {
    const auto own = arm[seed].loss_at(x), its = baseline[seed].loss_at(x);
    const auto same = own ? baseline[seed].x_at(*own) : std::nullopt,
               other = !same && its ? arm[seed].x_at(*its) : std::nullopt;
    if (same) logs.push_back(std::log(*same / x));
    if (other) logs.push_back(std::log(x / *other));
  }
  const std::size_t beyond = arm.size() - logs.size();
  if (beyond == 0) return {.ratio = paired_ratio(logs)};
  return {.why = fmt::format("beyond the curves with {} of {} seeds", beyond, arm.size())};
}

}  // namespace mxtape::referee
