#include "program/referee/law_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
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

LawBootstrap::LawBootstrap(const std::vector<LossOfRun>& runs, std::optional<double> floor, std::size_t draws)
    : fit_(fit_law(runs, floor)) {
  std::map<double, std::vector<std::uint64_t>> seeds;  // by size
  for (const LossOfRun& run : runs)
    if (auto& all = seeds[run.parameters]; std::find(all.begin(), all.end(), run.seed) == all.end())
      all.push_back(run.seed);
  for (const auto& [size, all] : seeds) {
    if (all.size() == 1) return;  // no spread
    freedom_ += int(all.size()) - 1;
  }
  for (std::size_t draw = 0; draw < draws; ++draw) {
    std::map<std::pair<double, std::uint64_t>, double> drawn;
    std::uint32_t number = 0;
    for (const auto& [size, all] : seeds) {
      const DrawKey key{.purpose = Purpose::sampling, .tensor_id = number++, .step = std::uint32_t(draw)};
      for (std::size_t place = 0; place + 1 < all.size(); ++place)
        drawn[{size, all[std::uint64_t(key.bits32(place)) * all.size() >> 32]}] += 1;
    }
    std::vector<double> weights;
    for (const LossOfRun& run : runs) weights.push_back(drawn[{run.parameters, run.seed}]);
    draws_.push_back(refit_law(fit_, runs, floor, weights));
  }
}

std::optional<std::array<double, 2>> LawBootstrap::interval(
    const std::function<double(const LawFit&)>& quantity) const {
  if (draws_.size() < 2) return std::nullopt;
  std::vector<double> logs;
  for (const LawFit& fit : draws_) logs.push_back(std::log(quantity(fit)));
  std::sort(logs.begin(), logs.end());
  const double estimate = std::log(quantity(fit_)),
               wider = student_quantile(0.95, freedom_) / 1.959963984540054;  // of a normal distribution
  const auto end = [&](double share) {
    const double drawn = percentile(logs, share), off = drawn - estimate;
    return std::exp(std::isfinite(off) ? estimate + wider * off : drawn);
  };
  return std::array{end(0.025), end(0.975)};
}

}  // namespace mxtape::referee
