#include "program/referee/law.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unsupported/Eigen/NonLinearOptimization>

#include "core/error.h"

namespace mxtape::referee {
namespace {

using Eigen::VectorXd;

/// A point of an arm. `value` is what is fitted: log L of the baseline, log(L / L_baseline) of another arm.
struct Mean {
  double log_n, log_d, value;
  double variance;  ///< of the value, from the spread of the seeds; 0 of one seed
};
using Means = std::vector<Mean>;

std::map<std::size_t, Means> means_by_arm(std::span<const LossOfRun> runs, std::span<const double> weights) {
  using Place = std::pair<double, double>;
  struct Pair {
    double loss, below, weight;
    double value() const { return std::log(loss / below); }
  };
  std::map<std::pair<Place, std::uint64_t>, double> baseline;
  for (const LossOfRun& run : runs)
    if (run.arm == 0) baseline[{{run.parameters, run.tokens}, run.seed}] = run.loss;
  std::map<std::pair<std::size_t, Place>, std::vector<Pair>> pairs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LossOfRun& run = runs[i];
    const Place place{run.parameters, run.tokens};
    if (const auto at = baseline.find({place, run.seed}); at != baseline.end())
      pairs[{run.arm, place}].push_back(
          {run.loss, run.arm == 0 ? 1 : at->second, weights.empty() ? 1 : weights[i]});
  }
  std::map<std::size_t, Means> means;
  for (const auto& [key, of_point] : pairs) {
    const double n = double(of_point.size());
    double weight = 0, loss = 0, below = 0, value = 0, squares = 0;
    for (const Pair& pair : of_point) weight += pair.weight, value += pair.value() / n;
    for (const Pair& pair : of_point) {
      const double share = weight > 0 ? pair.weight / weight : 1 / n;
      loss += share * pair.loss, below += share * pair.below;
      squares += std::pow(pair.value() - value, 2);
    }
    means[key.first].push_back({std::log(key.second.first), std::log(key.second.second),
                                std::log(loss / below), n > 1 ? squares / (n * (n - 1)) : 0});
  }
  return means;
}

double huber_delta(const Means& points) {
  double sum = 0;
  for (const Mean& p : points) sum += p.variance / double(points.size());
  return std::max(1e-3, 1.345 * std::sqrt(sum));
}

/// A law around the middle of its points, where terms and exponents hardly depend on each other. All is in
/// logarithms: the two terms, alpha, beta, gamma, the floor, effN, effD.
struct Centred {
  enum Unknown { n_term, alpha, d_term, beta, gamma, floor, eff_n, eff_d, count };
  double middle_n, middle_d;
  VectorXd x = VectorXd::Zero(count);

  /// log law; its derivatives into `slopes`, if given.
  double at(const Mean& p, double* slopes = nullptr) const {
    const double n = p.log_n + x[eff_n] - middle_n, d = p.log_d + x[eff_d] - middle_d, e = std::exp(x[floor]),
                 by_n = std::exp(x[alpha]), by_d = std::exp(x[beta]), a = std::exp(x[n_term] - by_n * n),
                 b = std::exp(x[d_term] - by_d * d), log_sum = std::log(a + b),
                 power = std::exp(std::exp(x[gamma]) * log_sum),
                 of_log_sum = std::exp(x[gamma]) * power / (power + e), of_a = of_log_sum * a / (a + b),
                 of_b = of_log_sum * b / (a + b);
    if (slopes) {
      const std::array<double, count> all{
          of_a,         -of_a * by_n * n, of_b, -of_b * by_d * d, of_log_sum * log_sum, e / (power + e),
          -of_a * by_n, -of_b * by_d};
      std::ranges::copy(all, slopes);
    }
    return std::log(power + e);
  }
  ScalingLaw law() const {
    const double by_n = std::exp(x[alpha]), by_d = std::exp(x[beta]);
    return {std::exp(x[n_term] + by_n * middle_n),
            by_n,
            std::exp(x[d_term] + by_d * middle_d),
            by_d,
            std::exp(x[gamma]),
            std::exp(x[floor])};
  }
  void set(const ScalingLaw& law) {
    x << std::log(law.A) - law.alpha * middle_n, std::log(law.alpha), std::log(law.B) - law.beta * middle_d,
        std::log(law.beta), std::log(law.gamma), std::log(law.floor), 0, 0;
  }
};

/// Residuals and slopes in the form that Eigen wants. The squares of its s add up to twice Huber's losses.
struct Squares {
  using Scalar = double;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };
  using InputType = VectorXd;
  using ValueType = VectorXd;
  using JacobianType = Eigen::MatrixXd;
  const Means& points;
  Centred law;
  int first, unknowns;  ///< those of x that are free
  double delta;

  int inputs() const { return unknowns; }
  int values() const { return int(points.size()); }
  Centred with(const VectorXd& free) const {
    Centred moved = law;
    moved.x.segment(first, unknowns) = free;
    return moved;
  }
  double root(double r) const {
    const double size = std::abs(r);
    return size <= delta ? r : std::copysign(std::sqrt(delta * (2 * size - delta)), r);
  }
  int operator()(const VectorXd& free, VectorXd& s) const {
    const Centred moved = with(free);
    for (int i = 0; i < values(); ++i)
      s[i] = root(moved.at(points[std::size_t(i)]) - points[std::size_t(i)].value);
    return s.allFinite() ? 0 : -1;
  }
  int df(const VectorXd& free, Eigen::MatrixXd& slopes) const {
    const Centred moved = with(free);
    std::array<double, Centred::count> row{};
    for (int i = 0; i < values(); ++i) {
      const double r = moved.at(points[std::size_t(i)], row.data()) - points[std::size_t(i)].value;
      for (int k = 0; k < unknowns; ++k)
        slopes(i, k) = row[std::size_t(first + k)] * (std::abs(r) <= delta ? 1 : delta / std::abs(root(r)));
    }
    return 0;
  }
  /// Moves the law to a minimum near it. Returns the sum of Huber's losses there, infinite if there is none.
  double minimise() {
    VectorXd free = law.x.segment(first, unknowns);
    Eigen::LevenbergMarquardt<Squares> solver(*this);
    solver.parameters.ftol = solver.parameters.xtol = 1e-13;
    solver.parameters.maxfev = 1000;
    solver.minimize(free);
    law = with(free);
    const double sum = 0.5 * solver.fnorm * solver.fnorm;
    return free.allFinite() && std::isfinite(sum) ? sum : std::numeric_limits<double>::infinity();
  }
};

void add_residuals(LawFit& fit, std::size_t arm, const Means& points, const Centred& law) {
  for (const Mean& p : points)
    fit.residuals.push_back({arm, std::exp(p.log_n), std::exp(p.log_d), p.value - law.at(p)});
}

/// Laws that share the loss above the floor at the middle in different ways.
std::vector<ScalingLaw> starts(const Means& points, double n, double d, std::optional<double> floor) {
  double least = std::numeric_limits<double>::infinity(), middle = 0;
  for (const Mean& p : points)
    least = std::min(least, std::exp(p.value)), middle += std::exp(p.value) / double(points.size());
  std::vector<ScalingLaw> all;
  for (const double e : floor ? std::vector{*floor} : std::vector{0.3 * least, 0.6 * least, 0.9 * least})
    for (const double gamma : {0.5, 1.0})
      for (const double of_n : {0.2, 0.5, 0.8})
        for (const double alpha : {0.2, 0.5, 1.0})
          for (const double beta : {0.2, 0.5, 1.0}) {
            const double sum = std::pow(std::max(middle - e, 0.01 * middle), 1 / gamma);
            all.push_back({of_n * sum * std::exp(alpha * n), alpha, (1 - of_n) * sum * std::exp(beta * d),
                           beta, gamma, e});
          }
  return all;
}

LawFit fit_from(const LawFit* near, std::span<const LossOfRun> runs, std::optional<double> floor,
                std::span<const double> weights) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto arms = means_by_arm(runs, weights);
  LawFit fit;
  fit.eff_n.assign(arms.rbegin()->first + 1, std::numeric_limits<double>::quiet_NaN());
  fit.eff_d = fit.delta = fit.eff_n;
  for (const auto& [arm, points] : arms) fit.delta[arm] = near ? near->delta[arm] : huber_delta(points);
  fit.eff_n[0] = fit.eff_d[0] = 1;
  fit.objective = infinity;

  const Means& points = arms.at(0);
  Centred start{0, 0}, best{0, 0};
  for (const Mean& p : points)
    start.middle_n += p.log_n / double(points.size()), start.middle_d += p.log_d / double(points.size());
  for (const ScalingLaw& law :
       near ? std::vector{near->law} : starts(points, start.middle_n, start.middle_d, floor)) {
    start.set(law);
    Squares squares{points, start, 0, floor ? 5 : 6, fit.delta[0]};
    if (const double sum = squares.minimise(); sum < fit.objective) fit.objective = sum, best = squares.law;
  }
  require(fit.objective < infinity, "law: no start led to a finite fit; is a loss at or below the floor?");
  fit.law = best.law();
  add_residuals(fit, 0, points, best);

  for (auto& [arm, of_arm] : arms) {
    if (arm == 0 || of_arm.size() < 3) continue;
    for (Mean& p : of_arm) p.value += best.at(p);  // the baseline's part is the law's
    Squares squares{of_arm, best, Centred::eff_n, 2, fit.delta[arm]};
    if (near) squares.law.x.tail(2) << std::log(near->eff_n[arm]), std::log(near->eff_d[arm]);
    squares.minimise();
    fit.eff_n[arm] = std::exp(squares.law.x[Centred::eff_n]);
    fit.eff_d[arm] = std::exp(squares.law.x[Centred::eff_d]);
    add_residuals(fit, arm, of_arm, squares.law);
  }
  return fit;
}

}  // namespace

double ScalingLaw::loss(double parameters, double tokens, double eff_n, double eff_d) const {
  const double sum = A * std::pow(eff_n * parameters, -alpha) + B * std::pow(eff_d * tokens, -beta);
  return std::pow(sum, gamma) + floor;
}

double ScalingLaw::break_even(double parameters, double tokens, double eff_n, double eff_d) const {
  const double lost = A * (std::pow(eff_n * parameters, -alpha) - std::pow(parameters, -alpha)),
               left = B * std::pow(tokens, -beta) - lost;
  if (left <= 0) return std::numeric_limits<double>::infinity();
  return std::pow(left / B, -1 / beta) / (eff_d * tokens);
}

double LawFit::worst_residual() const {
  double worst = 0;
  for (const LawResidual& r : residuals)
    if (r.arm == 0) worst = std::max(worst, std::abs(r.log_ratio));
  return worst;
}

std::string no_law_because(std::span<const LossOfRun> runs, bool floor_known) {
  std::set<double> sizes, lengths;
  std::set<std::pair<double, double>> points;
  for (const LossOfRun& run : runs)
    if (run.arm == 0)
      sizes.insert(run.parameters), lengths.insert(run.tokens), points.insert({run.parameters, run.tokens});
  const std::size_t parameters = floor_known ? 5 : 6;
  if (sizes.size() >= 3 && lengths.size() >= 3 && points.size() > parameters) return "";
  return fmt::format(
      "the baseline has too few sizes ({}), lengths ({}) or points ({}): a law of {} parameters wants 3, 3 "
      "and {}",
      sizes.size(), lengths.size(), points.size(), parameters, parameters + 1);
}

LawFit fit_law(std::span<const LossOfRun> runs, std::optional<double> floor) {
  const std::string reason = no_law_because(runs, floor.has_value());
  require(reason.empty(), "law: {}", reason);
  return fit_from(nullptr, runs, floor, {});
}

LawFit refit_law(const LawFit& near, std::span<const LossOfRun> runs, std::optional<double> floor,
                 std::span<const double> weights) {
  require(weights.size() == runs.size(), "law: {} weights for {} runs", weights.size(), runs.size());
  return fit_from(&near, runs, floor, weights);
}

}  // namespace mxtape::referee
