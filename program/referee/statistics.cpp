#include "program/referee/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/student_t.h"

namespace mxtape::referee {
namespace {

double mean(std::span<const double> x) { return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size()); }

/// Sum of (x - mean)(y - mean).
double products(std::span<const double> x, std::span<const double> y) {
  const double of_x = mean(x), of_y = mean(y);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - of_x) * (y[i] - of_y);
  return sum;
}

std::vector<double> ranks(std::span<const double> x) {
  std::vector<double> ranks;
  for (const double value : x) {
    const auto below = std::ranges::count_if(x, [&](double other) { return other < value; }),
               same = std::ranges::count(x, value);
    ranks.push_back(double(below) + double(same + 1) / 2);
  }
  return ranks;
}

}  // namespace

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> corrected(p.size());
  double largest = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    largest = std::min(1.0, std::max(largest, double(order.size() - k) * p[order[k]]));
    corrected[order[k]] = largest;
  }
  return corrected;
}

std::vector<double> contrast(std::span<const double> weights, std::span<const std::vector<double>> losses) {
  require(weights.size() == losses.size() && !losses.empty(), "contrast: {} weights of {} arms",
          weights.size(), losses.size());
  std::vector<double> sums(losses[0].size());
  for (std::size_t arm = 0; arm < losses.size(); ++arm) {
    require(losses[arm].size() == sums.size(), "contrast: arms have {} and {} seeds", sums.size(),
            losses[arm].size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += weights[arm] * losses[arm][i];
  }
  return sums;
}

Estimate ratio_of_means(std::span<const double> above, std::span<const double> below) {
  require(above.size() == below.size() && !above.empty(), "ratio: {} values over {}", above.size(),
          below.size());
  const double n = double(above.size()), x = mean(above), y = mean(below);
  Estimate ratio{.value = x / y};
  if (n < 2) {
    ratio.why = "one pair has no spread";
    return ratio;
  }
  // (x - r y)^2 = t^2 Var(x - r y) is a r^2 - 2 b r + c = 0.
  const double t = student_quantile(0.95, int(n) - 1), share = t * t / (n * (n - 1)),
               a = y * y - share * products(below, below), b = x * y - share * products(above, below),
               c = x * x - share * products(above, above);
  if (a <= 0) {
    ratio.why = "what it is divided by is not told from 0";
    return ratio;
  }
  const double root = std::sqrt(std::max(0.0, b * b - a * c));
  ratio.interval95 = {(b - root) / a, (b + root) / a};
  return ratio;
}

Estimate rank_correlation(std::span<const double> x, std::span<const double> y) {
  require(x.size() == y.size(), "rank correlation: {} values and {}", x.size(), y.size());
  const auto of_x = ranks(x), of_y = ranks(y);
  Estimate rho;
  const double n = double(x.size()), spread = std::sqrt(products(of_x, of_x) * products(of_y, of_y));
  if (!(spread > 0)) {
    rho.why = "all values of one are the same";
    return rho;
  }
  rho.value = products(of_x, of_y) / spread;
  if (n < 5 || std::abs(rho.value) >= 1) {
    rho.why = n < 5 ? "it takes five pairs" : "all ranks agree: there is no spread";
    return rho;
  }
  const double z = std::atanh(rho.value),
               half = 1.959963984540054 * std::sqrt((1 + rho.value * rho.value / 2) / (n - 3));
  rho.interval95 = {std::tanh(z - half), std::tanh(z + half)};
  return rho;
}

}  // namespace mxtape::referee
