#include "program/referee/statistics.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <unsupported/Eigen/AutoDiff>
#include <unsupported/Eigen/LevenbergMarquardt>
#include <utility>

#include "core/random.h"
#include "core/student_t.h"

namespace mxtape::referee {
namespace {

using Eigen::VectorXd;

/// A point of an arm. `value` is what is fitted: log L of the baseline, log(L / L_baseline) of another arm.
struct Mean {
  std::size_t point;
  double log_n, log_d, value;
  double variance;  ///< of the value, from the spread of the seeds; 0 of one seed
};
using Means = std::vector<Mean>;

Means means_of(const LossTable& table, std::size_t arm) {
  using Eigen::ArrayXd;
  Means means;
  for (std::size_t point = 0; point < table.points.size(); ++point) {
    const auto &own = table.losses[arm][point], &other = table.losses[table.baseline][point];
    if (own.empty() || other.empty()) continue;
    const auto [parameters, tokens] = table.points[point];
    const double n = double(own.size());
    const ArrayXd loss = Eigen::Map<const ArrayXd>(own.data(), std::ssize(own));
    ArrayXd below = Eigen::Map<const ArrayXd>(other.data(), std::ssize(other));
    if (arm == table.baseline) below.setOnes();
    const ArrayXd values = (loss / below).log();
    means.push_back({point, std::log(parameters), std::log(tokens), std::log(loss.mean() / below.mean()),
                     n > 1 ? (values - values.mean()).square().sum() / (n * (n - 1)) : 0});
  }
  return means;
}

double huber_delta(const Means& points) {
  double sum = 0;
  for (const Mean& p : points) sum += p.variance / double(points.size());
  return std::max(1e-3, 1.345 * std::sqrt(sum));
}

void require_enough(const Means& of_baseline, int parameters) {
  std::map<double, std::size_t> lengths_of;  // by size
  std::size_t lengths = 0;
  for (const Mean& p : of_baseline) lengths = std::max(lengths, ++lengths_of[p.log_n]);
  require(
      lengths_of.size() >= 3 && lengths >= 3 && std::ssize(of_baseline) > parameters,
      "the baseline has too few sizes ({}), lengths ({}) or points ({}): a law of {} parameters wants 3, 3 "
      "and {}",
      lengths_of.size(), lengths, of_baseline.size(), parameters, parameters + 1);
}

/// A law around the middle of its points, where terms and exponents hardly depend on each other. All is in
/// logarithms: the two terms, alpha, beta, gamma, the floor, effN, effD.
struct Centred {
  enum Unknown { n_term, alpha, d_term, beta, gamma, floor, eff_n, eff_d, count };
  /// A number and its derivatives by the unknowns.
  using Sloped = Eigen::AutoDiffScalar<Eigen::Matrix<double, count, 1>>;
  double middle_n, middle_d;
  VectorXd x = VectorXd::Zero(count);

  /// log law.
  Sloped at(const Mean& p) const {
    const auto unknown = [&](Unknown which) { return Sloped(x[which], count, which); };
    const Sloped n = unknown(eff_n) + (p.log_n - middle_n), d = unknown(eff_d) + (p.log_d - middle_d),
                 sum = exp(unknown(n_term) - exp(unknown(alpha)) * n) +
                       exp(unknown(d_term) - exp(unknown(beta)) * d);
    return log(exp(exp(unknown(gamma)) * log(sum)) + exp(unknown(floor)));
  }
  ScalingLaw law() const {
    ScalingLaw law{.gamma = std::exp(x[gamma]), .floor = std::exp(x[floor])};
    law.alpha = std::exp(x[alpha]), law.A = std::exp(x[n_term] + law.alpha * middle_n);
    law.beta = std::exp(x[beta]), law.B = std::exp(x[d_term] + law.beta * middle_d);
    return law;
  }
  void set(const ScalingLaw& law) {
    x << std::log(law.A) - law.alpha * middle_n, std::log(law.alpha), std::log(law.B) - law.beta * middle_d,
        std::log(law.beta), std::log(law.gamma), std::log(law.floor), 0, 0;
  }
};

/// In the form that Eigen wants. The squares of its s add up to twice Huber's losses.
struct Squares : Eigen::DenseFunctor<double> {  // inputs: the unknowns that are free
  const Means& points;
  Centred law;
  int first;  ///< free unknown
  double delta;

  Centred with(const VectorXd& free) const {
    Centred moved = law;
    moved.x.segment(first, inputs()) = free;
    return moved;
  }
  /// Of twice Huber's loss at a point, with the residual's sign.
  Centred::Sloped root(const Centred& moved, const Mean& p) const {
    const Centred::Sloped r = moved.at(p) - p.value;
    if (std::abs(r.value()) <= delta) return r;
    return std::copysign(1.0, r.value()) * sqrt(delta * (2 * abs(r) - delta));
  }
  int operator()(const VectorXd& free, VectorXd& s) const {
    const Centred moved = with(free);
    for (int i = 0; i < values(); ++i) s[i] = root(moved, points[std::size_t(i)]).value();
    return s.allFinite() ? 0 : -1;
  }
  int df(const VectorXd& free, Eigen::MatrixXd& slopes) const {
    const Centred moved = with(free);
    for (int i = 0; i < values(); ++i)
      slopes.row(i) = root(moved, points[std::size_t(i)]).derivatives().segment(first, inputs());
    return 0;
  }
  /// Moves the law to a minimum near it. Returns the sum of Huber's losses there, infinite if there is none.
  double minimise() {
    VectorXd free = law.x.segment(first, inputs());
    Eigen::LevenbergMarquardt<Squares> solver(*this);
    solver.setFtol(1e-13), solver.setXtol(1e-13), solver.setMaxfev(1000);
    solver.minimize(free);
    law = with(free);
    const double sum = 0.5 * solver.fnorm() * solver.fnorm();
    return free.allFinite() && std::isfinite(sum) ? sum : INFINITY;
  }
};

/// Laws that share the loss above the floor at the middle in different ways.
std::vector<ScalingLaw> starts(const Means& points, double n, double d) {
  double least = INFINITY, middle = 0;
  for (const Mean& p : points)
    least = std::min(least, std::exp(p.value)), middle += std::exp(p.value) / double(points.size());
  std::vector<ScalingLaw> all;
  for (const double e : {0.3 * least, 0.6 * least, 0.9 * least})
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

/// The value below which this share of the sorted ones lies, linear between two.
double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * double(sorted.size() - 1), part = at - std::floor(at);
  const std::size_t below = std::size_t(at);
  if (part == 0 || sorted[below] == sorted[below + 1]) return sorted[below];  // also beside infinite ones
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

}  // namespace

double ScalingLaw::break_even(double parameters, double tokens, double eff_n, double eff_d) const {
  const double lost = A * (std::pow(eff_n * parameters, -alpha) - std::pow(parameters, -alpha)),
               left = B * std::pow(tokens, -beta) - lost;
  if (left <= 0) return INFINITY;
  return std::pow(left / B, -1 / beta) / (eff_d * tokens);
}

LawFit fit_law(const LossTable& table, const LawFit* near) {
  constexpr int parameters = Centred::eff_n;
  const Means points = means_of(table, table.baseline);
  require_enough(points, parameters);
  LawFit fit;
  fit.eff_n.assign(table.losses.size(), NAN);
  fit.eff_d = fit.delta = fit.eff_n;
  fit.residuals.assign(table.losses.size(), std::vector<double>(table.points.size(), NAN));
  fit.eff_n[table.baseline] = fit.eff_d[table.baseline] = 1;
  fit.objective = INFINITY;

  const double delta = fit.delta[table.baseline] = near ? near->delta[table.baseline] : huber_delta(points);
  Centred start{0, 0}, best{0, 0};
  for (const Mean& p : points)
    start.middle_n += p.log_n / double(points.size()), start.middle_d += p.log_d / double(points.size());
  for (const ScalingLaw& law :
       near ? std::vector{near->law} : starts(points, start.middle_n, start.middle_d)) {
    start.set(law);
    Squares squares{{parameters, int(points.size())}, points, start, 0, delta};
    if (const double sum = squares.minimise(); sum < fit.objective) fit.objective = sum, best = squares.law;
  }
  fit.law = best.law();
  require(std::isfinite(fit.objective + fit.law.A + fit.law.B),
          "a fit is not finite: losses may lie on a plateau");
  for (const Mean& p : points) fit.residuals[table.baseline][p.point] = p.value - best.at(p).value();
  for (std::size_t arm = 0; arm < table.losses.size(); ++arm) {
    Means of_arm = means_of(table, arm);
    if (arm == table.baseline || of_arm.size() < 3) continue;
    fit.delta[arm] = near ? near->delta[arm] : huber_delta(of_arm);
    for (Mean& p : of_arm) p.value += best.at(p).value();  // the baseline's part is the law's
    Squares squares{{2, int(of_arm.size())}, of_arm, best, Centred::eff_n, fit.delta[arm]};
    if (near) squares.law.x.tail(2) << std::log(near->eff_n[arm]), std::log(near->eff_d[arm]);
    squares.minimise();
    fit.eff_n[arm] = std::exp(squares.law.x[Centred::eff_n]);
    fit.eff_d[arm] = std::exp(squares.law.x[Centred::eff_d]);
    for (const Mean& p : of_arm) fit.residuals[arm][p.point] = p.value - squares.law.at(p).value();
  }
  return fit;
}

LawBootstrap::LawBootstrap(const LossTable& table, std::size_t draws) : fit(fit_law(table)) {
  std::map<double, std::size_t> seeds;  // by size
  for (std::size_t point = 0; point < table.points.size(); ++point)
    if (const std::size_t n = table.losses[table.baseline][point].size())
      seeds[table.points[point].parameters] = n;
  for (const auto& [size, n] : seeds) {
    if (n == 1) return;  // no spread
    freedom += int(n) - 1;
  }
  for (std::size_t draw = 0; draw < draws; ++draw) {
    LossTable drawn = table;
    for (auto& of_arm : drawn.losses)
      for (std::size_t point = 0; point < of_arm.size(); ++point) {
        const auto size = std::distance(seeds.begin(), seeds.find(table.points[point].parameters));
        const DrawKey key{
            .purpose = Purpose::sampling, .tensor_id = std::uint32_t(size), .step = std::uint32_t(draw)};
        const std::vector<double> all = std::exchange(of_arm[point], {});
        for (std::size_t place = 0; place + 1 < all.size(); ++place)
          of_arm[point].push_back(all[std::uint64_t(key.bits32(place)) * all.size() >> 32]);
      }
    fits.push_back(fit_law(drawn, &fit));
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
