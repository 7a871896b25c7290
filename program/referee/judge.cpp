#include "program/sweep/results.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "program/referee/statistics.h"

namespace mxtape::referee {
namespace {

/// Corrects the p of each group of `all` together. What lacks runs counts as p = 1: results that come later
/// withdraw no verdict.
void correct(auto& all, const auto& name_of_group) {
  std::map<std::tuple<std::size_t, Stage, std::string>, std::vector<double>> groups;  // their p
  const auto group_of = [&](const auto& one) -> auto& {
    return groups[{one.point, one.stage, name_of_group(one)}];
  };
  const auto p = [](const auto& one) { return one.reason.empty() ? std::min(1.0, one.gap.p) : 1; };
  for (const auto& one : all) group_of(one).push_back(p(one));
  for (auto& one : all)
    if (one.gap.pairs > 1) one.holm = holm(p(one), group_of(one));
}

void correct_families(Results& r) {
  correct(r.gaps, [&](const Gap& g) {
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
        if (std::ranges::find(r.runs, stage, &Run::stage) == r.runs.end()) continue;
        const auto& [text, arms, weights] = r.asked.contrasts[c];
        std::string reason;
        std::vector<double> sums(r.seeds(stage).size());  // by seed
        for (std::size_t i = 0; i < arms.size() && reason.empty(); ++i) {
          const auto losses = r.losses(point, arms[i], stage);
          const auto missing = std::size_t(std::count(losses.begin(), losses.end(), std::nullopt));
          if (missing > 0 || r.blew_up(point, arms[i], stage))
            reason = r.arms[arms[i]].name + ": " +
                     r.why_open(point, arms[i], stage, losses.size() - missing, "runs", arms[i]);
          for (std::size_t seed = 0; seed < losses.size() && reason.empty(); ++seed)
            sums[seed] += weights[i] * *losses[seed];
        }
        if (!reason.empty()) sums.clear();
        r.contrast_results.push_back(
            {c, point, stage, paired_gap(sums, r.asked.tolerance), INFINITY, reason});
      }
  correct(r.contrast_results, [&](const ContrastResult& c) {
    const auto planned = [&](std::size_t arm) { return r.is_planned(arm, c.stage); };
    return std::ranges::all_of(r.asked.contrasts[c.contrast].arms, planned) ? "" : "not planned";
  });
}

/// Of the stage that verdicts are of, where the runs of all seeds are finished.
LossTable table_of(const Results& r) {
  LossTable table{.baseline = r.baseline, .points = {}, .losses = {}};
  for (const Point& point : r.points)
    table.points.push_back({double(point.parameters), double(point.tokens)});
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    auto& of_arm = table.losses.emplace_back();
    for (std::size_t point = 0; point < r.points.size(); ++point) {
      auto& by_seed = of_arm.emplace_back();
      const auto losses = r.losses(point, arm, r.judged());
      if (r.blew_up(point, r.baseline, r.judged()) || std::count(losses.begin(), losses.end(), std::nullopt))
        continue;
      for (const auto& loss : losses) by_seed.push_back(*loss);
    }
  }
  return table;
}

/// The curves of an arm by seed, over the points from one to before another that `beside` has too.
std::vector<LossCurve> curves(const LossTable& table, std::size_t first, std::size_t last, std::size_t arm,
                              std::size_t beside) {
  std::vector<LossCurve> by_seed;
  for (std::size_t point = first; point < last; ++point) {
    const auto& losses = table.losses[arm][point];
    if (losses.empty() || table.losses[beside][point].empty()) continue;
    by_seed.resize(losses.size());
    for (std::size_t seed = 0; seed < losses.size(); ++seed)
      by_seed[seed].x.push_back(table.points[point].tokens), by_seed[seed].loss.push_back(losses[seed]);
  }
  return by_seed;
}

void add_efficiencies(Results& r, const LossTable& table, std::size_t size) {
  const std::size_t lengths = r.asked.lengths.size(), first = size * lengths, last = first + lengths;
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    const auto own = curves(table, first, last, arm, r.baseline),
               base = curves(table, first, last, r.baseline, arm);
    if (arm == r.baseline || own.empty()) continue;
    for (std::size_t point = first; point < last; ++point) {
      const double x = table.points[point].tokens;
      if (std::ranges::find(own[0].x, x) == own[0].x.end()) continue;
      Efficiency& found = r.efficiencies.emplace_back(efficiency_at(x, own, base));
      found.arm = arm, found.point = point, found.stage = r.judged();
      if (size + 1 < r.sizes.size()) continue;
      const Efficiency k = efficiency_at(x, base, own);  // of the longest that has one, at the largest size
      std::erase_if(r.break_even,
                    [&](const BreakEven& b) { return b.arm == arm && (k.ratio || !b.speed_up); });
      if (std::ranges::find(r.break_even, arm, &BreakEven::arm) == r.break_even.end())
        r.break_even.push_back({arm, k.ratio, "tokens", k.why});
    }
  }
}

void add_law(Results& r, const LossTable& table) {
  Law& law = r.law;
  const LawBootstrap bootstrap(table);
  const LawFit& fit = bootstrap.fit;
  law.fitted = true, law.draws = std::int64_t(bootstrap.fits.size()), law.worst = 0;
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm)
    for (std::size_t point = 0; point < r.points.size(); ++point) {
      const double off = fit.residuals[arm][point], measured = mean(table.losses[arm][point]);
      if (std::isnan(off)) continue;
      law.residuals.push_back({arm, point, measured, measured / std::exp(off)});
      if (arm == r.baseline) law.worst = std::max(law.worst, std::abs(std::expm1(off)));
    }
  const auto is_outside = [&](const Residual& x) {
    std::vector<double> gaps = table.losses[x.arm][x.point];
    for (std::size_t i = 0; i < gaps.size(); ++i) gaps[i] -= table.losses[r.baseline][x.point][i];
    const auto [low, high] = paired_gap(gaps, r.asked.tolerance).interval95;
    return std::abs(x.measured - x.fitted) >
           std::clamp((high - low) / 2, 1e-3 * x.measured, law.limit * x.measured);
  };
  law.A = fit.law.A, law.alpha = fit.law.alpha, law.B = fit.law.B, law.beta = fit.law.beta,
  law.gamma = fit.law.gamma, law.E = fit.law.floor;
  law.holds = law.worst <= law.limit, law.why.clear();
  if (!law.holds)
    law.why = fmt::format("the baseline is off it by {:.1f} %; want at most {:.1f} %", 100 * law.worst,
                          100 * law.limit);
  const Point& largest = r.points.back();
  for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
    if (arm == r.baseline || std::isnan(fit.eff_n[arm])) continue;
    law.arms.push_back({arm, bootstrap.estimate([=](const LawFit& f) { return f.eff_n[arm]; }),
                        bootstrap.estimate([=](const LawFit& f) { return f.eff_d[arm]; })});
    for (const Residual& x : law.residuals) law.arms.back().outside += x.arm == arm && is_outside(x);
    if (!law.holds_for(law.arms.back())) continue;
    std::erase_if(r.break_even, [&](const BreakEven& b) { return b.arm == arm; });
    BreakEven& k = r.break_even.emplace_back(BreakEven{.arm = arm, .from = "law"});
    k.speed_up = bootstrap.estimate([=](const LawFit& f) {
      return f.law.break_even(double(largest.parameters), double(largest.tokens), f.eff_n[arm], f.eff_d[arm]);
    });
    if (!std::isfinite(k.speed_up->value))
      k.speed_up.reset(), k.why = "no number of tokens makes up for its effN";
  }
}

void add_correlations(Results& r) {
  for (std::size_t point = 0; point < r.points.size(); ++point) {
    std::map<std::string, std::map<std::size_t, std::vector<double>>> measures;  // by arm
    for (const Run& run : r.runs) {
      if (run.point != point || run.stage != r.judged() || run.arm == r.baseline || !run.telemetry) continue;
      const auto& [slots, errors, alignment] = *run.telemetry;
      for (std::size_t i = 0; i < slots.size(); ++i)
        measures["relative error of " + slots[i]][run.arm].push_back(errors[i]);
      if (alignment) measures["alignment of the gradient"][run.arm].push_back(*alignment);
    }
    for (const auto& [name, by_arm] : measures) {
      std::vector<double> x, y;
      for (const auto& [arm, of_runs] : by_arm)
        if (const Gap* gap = r.gap(point, arm, r.judged()); gap && gap->gap.pairs > 0)
          x.push_back(mean(of_runs)), y.push_back(gap->gap.mean);
      if (x.size() >= 3)
        r.correlations.push_back({name, point, std::int64_t(x.size()), rank_correlation(x, y)});
    }
  }
}

Reached reached(const Results& r, Reached made, const auto& measure) {
  std::vector<double> values, logarithms;
  for (const Run& run : r.runs) {
    if (run.point != made.point || run.arm != made.arm || run.stage != made.stage || !run.loss) continue;
    const auto value = measure(run);
    ++(value ? made.runs : made.never);
    if (!value) continue;
    values.push_back(*value);
    const Run* base = r.run(made.point, r.baseline, made.stage, run.seed);
    if (const auto same = base ? measure(*base) : std::nullopt)
      logarithms.push_back(std::log(*value / *same));
  }
  if (made.runs > 0) made.mean = mean(values);
  if (made.runs > 0 && made.arm != r.baseline && logarithms.size() == r.seeds(made.stage).size() &&
      !r.blew_up(made.point, r.baseline, made.stage))
    made.ratio = paired_ratio(logarithms);
  return made;
}

}  // namespace

void judge(Results& r) {
  correct_families(r);
  add_contrasts(r);
  add_correlations(r);
  r.law.limit = law_limit, r.law.why = "one size and one length";
  if (!r.has_points()) return;
  const LossTable table = table_of(r);
  for (std::size_t size = 0; size < r.sizes.size(); ++size) add_efficiencies(r, table, size);
  try {
    add_law(r, table);
  } catch (const Error& e) {  // there is none; all else stands
    r.law.why = e.what();
  }
}

void add_steps_to(Results& r) {
  for (const double loss : r.asked.steps_to) {
    const auto steps = [&](const Run& run) { return steps_to(run.curve, loss); };
    const auto seconds = [&](const Run& run) {
      auto taken = steps(run);
      if (taken) *taken *= r.times.runs[std::size_t(&run - r.runs.data())].ms.value_or(NAN) / 1e3;
      return taken;
    };
    for (const Stage stage : {Stage::select, Stage::confirm})
      for (std::size_t point = 0; point < r.points.size(); ++point)
        for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
          const Reached found = reached(r, {loss, point, arm, stage}, steps);
          if (found.runs + found.never == 0) continue;
          r.steps_to.push_back(found);
          r.times.seconds_to.push_back(reached(r, {loss, point, arm, stage}, seconds));
        }
  }
}

}  // namespace mxtape::referee
