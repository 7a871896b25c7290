#include "program/referee/efficiency.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace mxtape::referee {
namespace {

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

std::optional<double> LossCurve::loss_at(double at) const {
  for (std::size_t i = 0; i + 1 < x.size(); ++i)
    if (x[i] <= at && at <= x[i + 1])
      return between(*this, i, std::log(at / x[i]) / std::log(x[i + 1] / x[i]));
  return std::nullopt;
}

std::optional<double> LossCurve::x_at(double wanted) const {
  std::optional<double> found;
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    const bool last = i + 2 == x.size(), ends = loss[i + 1] == wanted;
    if (loss[i] != wanted && (ends ? !last : (loss[i] > wanted) == (loss[i + 1] > wanted))) continue;
    if (found) return std::nullopt;
    double low = 0, high = 1;
    if (loss[i] == wanted) high = 0;
    if (loss[i] != wanted && ends) low = 1;
    for (double middle; low < (middle = low + (high - low) / 2) && middle < high;)
      ((between(*this, i, middle) > wanted) == (loss[i] > wanted) ? low : high) = middle;
    found = x[i] * std::pow(x[i + 1] / x[i], high);
  }
  return found;
}

Efficiency efficiency_at(double x, std::span<const CurvePair> seeds) {
  require(!seeds.empty(), "efficiency: no seeds");
  Efficiency efficiency;
  std::vector<double> logs;
  for (const CurvePair& pair : seeds) {
    const auto arm = pair.arm.loss_at(x), baseline = pair.baseline.loss_at(x);
    const auto same = arm ? pair.baseline.x_at(*arm) : std::nullopt,
               other = !same && baseline ? pair.arm.x_at(*baseline) : std::nullopt;
    if (same) logs.push_back(std::log(*same / x));
    if (other) logs.push_back(std::log(x / *other));
  }
  if (logs.size() < seeds.size()) {
    efficiency.why =
        fmt::format("beyond the curves with {} of {} seeds", seeds.size() - logs.size(), seeds.size());
    return efficiency;
  }
  const PairedGap gap = paired_gap(logs, 1);
  efficiency.ratio = Estimate{.value = std::exp(gap.mean)};
  if (gap.pairs > 1)
    efficiency.ratio->interval95 = {std::exp(gap.interval95[0]), std::exp(gap.interval95[1])};
  else
    efficiency.ratio->why = "one seed has no spread";
  return efficiency;
}

}  // namespace mxtape::referee
