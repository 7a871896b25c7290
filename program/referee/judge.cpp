#include "program/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "program/referee/law.h"
#include "program/referee/statistics.h"

namespace mxtape::referee {
namespace {

/// By seed; empty unless all are there, and the baseline's kept what they had learned.
std::vector<double> whole_losses(const Results& r, std::size_t point, std::size_t arm, Stage stage) {
  std::vector<double> whole;
  if (r.blew_up(point, r.baseline, stage)) return whole;
  for (const auto& loss : r.losses(point, arm, stage)) {
    if (!loss) return {};
    whole.push_back(*loss);
  }
  return whole;
}

/// Corrects the p of each group of `all` together.
template <class T>
void correct(std::vector<T>& all, const std::function<std::string(const T&)>& name_of_group) {
  std::map<std::tuple<std::size_t, Stage, std::string>, std::vector<T*>> groups;
  for (T& one : all)
    if (one.gap.pairs > 1) groups[{one.point, one.stage, name_of_group(one)}].push_back(&one);
  for (const auto& [key, members] : groups) {
    std::vector<double> p;
    for (const T* one : members) p.push_back(one->gap.p);
    const auto corrected = holm(p);
    for (std::size_t i = 0; i < p.size(); ++i) members[i]->holm = corrected[i];
  }
}

void correct_families(Results& r) {
  correct<Gap>(r.gaps, [&](const Gap& g) {
    const Arm& arm = r.arms[g.arm];
    return arm.family.empty() ? "arm " + arm.name : "family " + arm.family;
  });
  for (Gap& g : r.gaps)
    if ((g.verdict == Verdict::worse || g.verdict == Verdict::better) && g.holm >= 0.05)
      g.verdict = Verdict::not_resolved, g.reason = fmt::format("p among its family is {:.2g}", g.holm);
}

void add_contrasts(Results& r) {
  for (const Stage stage : {Stage::select, Stage::confirm})
    for (std::size_t point = 0; point < r.points.size(); ++point)
      for (std::size_t c = 0; c < r.asked.contrasts.size(); ++c) {
        const auto& [text, arms, weights] = r.asked.contrasts[c];
        std::vector<double> sums(r.seeds(stage).size());  // by seed
        for (std::size_t i = 0; i < arms.size(); ++i) {
          const auto losses = whole_losses(r, point, arms[i], stage);
          if (losses.empty()) sums.clear();
          for (std::size_t seed = 0; seed < sums.size(); ++seed) sums[seed] += weights[i] * losses[seed];
        }
        if (!sums.empty())
          r.contrast_results.push_back({c, point, stage, paired_gap(sums, r.asked.tolerance)});
      }
  correct<ContrastResult>(r.contrast_results, [](const ContrastResult&) { return ""; });
}

double x_of(const Point& point, Efficiency::Along along) {
  return double(along == Efficiency::Along::tokens ? point.tokens : point.parameters);
}

/// The curves of an arm and the baseline over these points, by seed.
std::vector<CurvePair> curves(const Results& r, const std::vector<std::size_t>& points, std::size_t arm,
                              Efficiency::Along along) {
  std::vector<CurvePair> pairs;
  for (const std::size_t point : points) {
    const auto of_arm = whole_losses(r, point, arm, r.judged()),
               of_baseline = whole_losses(r, point, r.baseline, r.judged());
    if (of_arm.empty() || of_baseline.empty()) continue;
    const double x = x_of(r.points[point], along);
    pairs.resize(of_arm.size());
    for (std::size_t seed = 0; seed < pairs.size(); ++seed) {
      pairs[seed].baseline.x.push_back(x), pairs[seed].baseline.loss.push_back(of_baseline[seed]);
      pairs[seed].arm.x.push_back(x), pairs[seed].arm.loss.push_back(of_arm[seed]);
    }
  }
  return pairs;
}

void add_efficiencies(Results& r, const std::vector<std::size_t>& points, Efficiency::Along along) {
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    const auto pairs = curves(r, points, arm, along);
    if (arm == r.baseline || pairs.empty()) continue;
    auto swapped = pairs;
    for (CurvePair& pair : swapped) std::swap(pair.arm, pair.baseline);
    for (const std::size_t point : points) {
      const double x = x_of(r.points[point], along);
      if (std::ranges::find(pairs[0].arm.x, x) == pairs[0].arm.x.end()) continue;
      Efficiency found = efficiency_at(x, pairs);
      found.arm = arm, found.point = point, found.along = along, found.stage = r.judged();
      r.efficiencies.push_back(found);
      if (along == Efficiency::Along::parameters || r.points[point].size + 1 < r.sizes.size()) continue;
      const Efficiency k = efficiency_at(x, swapped);  // of the longest that has one, at the largest size
      std::erase_if(r.break_even,
                    [&](const BreakEven& b) { return b.arm == arm && (k.ratio || !b.speed_up); });
      if (std::ranges::find(r.break_even, arm, &BreakEven::arm) == r.break_even.end())
        r.break_even.push_back({arm, k.ratio, "tokens", k.why});
    }
  }
}

void add_law(Results& r) {
  LossTable table{.baseline = r.baseline, .points = {}, .losses = {}};
  for (const Point& point : r.points)
    table.points.push_back({double(point.parameters), double(point.tokens)});
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    auto& of_arm = table.losses.emplace_back();
    for (std::size_t point = 0; point < r.points.size(); ++point)
      of_arm.push_back(whole_losses(r, point, arm, r.judged()));
  }
  Law& law = r.law;
  law.limit = law_limit, law.floor_known = r.floor.has_value();
  const LawBootstrap bootstrap(table, r.floor);
  const LawFit& fit = bootstrap.fit;
  law.fitted = true, law.draws = LawBootstrap::default_draws, law.worst = fit.worst_residual;
  law.A = fit.law.A, law.alpha = fit.law.alpha, law.B = fit.law.B, law.beta = fit.law.beta,
  law.gamma = fit.law.gamma, law.E = fit.law.floor;
  law.holds = law.worst <= law.limit;
  if (!law.holds)
    law.why = fmt::format("the baseline is off it by {:.1f} % of its loss; want at most {:.1f} %",
                          100 * law.worst, 100 * law.limit);
  const auto estimate = [&](const std::function<double(const LawFit&)>& quantity) {
    Estimate made{.value = quantity(fit), .interval95 = bootstrap.interval(quantity)};
    if (!made.interval95) made.why = "a size with one seed has no spread";
    if (made.interval95 && !std::isfinite((*made.interval95)[1]))
      made.interval95.reset(), made.why = "in some draws no number of tokens makes up for effN";
    return made;
  };
  const Point& largest = r.points.back();
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    if (arm == r.baseline || std::isnan(fit.eff_n[arm])) continue;
    law.arms.push_back({arm, estimate([=](const LawFit& f) { return f.eff_n[arm]; }),
                        estimate([=](const LawFit& f) { return f.eff_d[arm]; })});
    if (!law.holds) continue;
    std::erase_if(r.break_even, [&](const BreakEven& b) { return b.arm == arm; });
    BreakEven& k = r.break_even.emplace_back(BreakEven{.arm = arm, .from = "law"});
    k.speed_up = estimate([=](const LawFit& f) {
      return f.law.break_even(double(largest.parameters), double(largest.tokens), f.eff_n[arm], f.eff_d[arm]);
    });
    if (!std::isfinite(k.speed_up->value))
      k.speed_up.reset(), k.why = "no number of tokens makes up for its effN";
  }
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm)
    for (std::size_t point = 0; point < r.points.size(); ++point) {
      if (std::isnan(fit.residuals[arm][point])) continue;
      const auto& losses = table.losses[arm][point];
      const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / double(losses.size());
      law.residuals.push_back({arm, point, mean, mean / std::exp(fit.residuals[arm][point])});
    }
}

void add_correlations(Results& r) {
  for (std::size_t point = 0; point < r.points.size(); ++point) {
    std::map<std::string, std::map<std::size_t, std::pair<double, double>>>
        measures;  // by arm: sum, how many
    for (const Run& run : r.runs) {
      if (run.point != point || run.stage != r.judged() || run.arm == r.baseline || !run.telemetry) continue;
      const auto add = [&](const std::string& name, double value) {
        auto& [sum, count] = measures[name][run.arm];
        sum += value, count += 1;
      };
      for (std::size_t i = 0; i < run.telemetry->slots.size(); ++i)
        add("relative error of " + run.telemetry->slots[i], run.telemetry->relative_error[i]);
      if (run.telemetry->alignment) add("alignment of the gradient", *run.telemetry->alignment);
    }
    for (const auto& [name, by_arm] : measures) {
      std::vector<double> x, y;
      for (const Gap& g : r.gaps)
        if (g.point == point && g.stage == r.judged() && by_arm.contains(g.arm))
          x.push_back(by_arm.at(g.arm).first / by_arm.at(g.arm).second), y.push_back(g.gap.mean);
      if (x.size() >= 3)
        r.correlations.push_back({name, point, std::int64_t(x.size()), rank_correlation(x, y)});
    }
  }
}

}  // namespace

void judge(Results& r) {
  correct_families(r);
  add_contrasts(r);
  add_correlations(r);
  if (!r.has_points()) return;
  const auto add_along = [&](Efficiency::Along along, const std::function<bool(const Point&)>& wanted) {
    std::vector<std::size_t> points;
    for (std::size_t p = 0; p < r.points.size(); ++p)
      if (wanted(r.points[p])) points.push_back(p);
    add_efficiencies(r, points, along);
  };
  for (std::size_t size = 0; size < r.sizes.size(); ++size)
    add_along(Efficiency::Along::tokens, [=](const Point& p) { return p.size == size; });
  for (const double length : r.asked.lengths)
    add_along(Efficiency::Along::parameters,
              [=](const Point& p) { return p.tokens_per_parameter == length; });
  try {
    add_law(r);
  } catch (const Error& e) {  // there is none; all else stands
    r.law.why = e.what();
  }
}

}  // namespace mxtape::referee
