#include "program/referee/law.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "core/student_t.h"

namespace mxtape::referee {
namespace {

/// The value below which this share of the sorted ones lies, linear between two.
double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * double(sorted.size() - 1), part = at - std::floor(at);
  const std::size_t below = std::size_t(at);
  if (part == 0 || sorted[below] == sorted[below + 1]) return sorted[below];  // also beside infinite ones
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

}  // namespace

LawBootstrap::LawBootstrap(const LossTable& table, std::optional<double> floor, std::size_t draws)
    : fit(fit_law(table, floor)) {
  std::map<double, std::size_t> seeds;  // by size
  for (std::size_t point = 0; point < table.points.size(); ++point)
    if (const std::size_t n = table.losses[table.baseline][point].size())
      seeds[table.points[point].parameters] = n;
  for (const auto& [size, n] : seeds) {
    if (n == 1) return;  // no spread
    freedom += int(n) - 1;
  }
  for (std::size_t draw = 0; draw < draws; ++draw) {
    SeedShares shares;
    std::uint32_t number = 0;
    for (const auto& [size, n] : seeds) {
      const DrawKey key{.purpose = Purpose::sampling, .tensor_id = number++, .step = std::uint32_t(draw)};
      auto& of_size = shares[size] = std::vector<double>(n);
      for (std::size_t place = 0; place + 1 < n; ++place)
        of_size[std::uint64_t(key.bits32(place)) * n >> 32] += 1 / double(n - 1);
    }
    fits.push_back(fit_law(table, floor, &fit, shares));
  }
}

Estimate LawBootstrap::estimate(const std::function<double(const LawFit&)>& quantity) const {
  const double value = quantity(fit), log_value = std::log(value);
  if (fits.size() < 2) return {.value = value, .why = "a size with one seed has no spread"};
  std::vector<double> logs;
  for (const LawFit& of_draw : fits) logs.push_back(std::log(quantity(of_draw)));
  std::sort(logs.begin(), logs.end());
  const double wider = student_quantile(0.95, freedom) / 1.959963984540054;  // of a normal distribution
  const auto end = [&](double share) {
    const double drawn = percentile(logs, share), off = drawn - log_value;
    return std::exp(std::isfinite(off) ? log_value + wider * off : drawn);
  };
  if (!std::isfinite(end(0.975)))
    return {.value = value, .why = "in some draws no number of tokens makes up for effN"};
  return {.value = value, .interval95 = {{end(0.025), end(0.975)}}};
}

}  // namespace mxtape::referee
