#include "program/sweep/sweep_results.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "program/plot/plot.h"

namespace mxtape {
namespace {

constexpr std::int64_t steps_after_switch = 50;  // few enough to see the jump, enough to see past the noise
constexpr std::int64_t windows = 50;

/// The logs of an arm's finished runs by seed.
using Logs = std::map<std::uint64_t, RunLog>;

RunResult result_of(const SweepRun& run, std::int64_t vocabulary, Logs& logs) {
  RunResult result;
  result.seed = run.seed, result.state = run.state, result.folder = run.folder.string();
  if (run.record) {
    result.code = run.record->code;
    result.message = run.record->message;
    result.peak_mib = run.record->peak_mib;
    result.seconds = run.record->seconds;
    result.threads = run.record->threads;
  }
  if (run.state != RunState::finished) return result;
  RunLog log = read_run_log(run.folder);
  result.loss = log.validation.back().loss;
  result.ms = log.median_milliseconds;
  LossSpike spike(vocabulary);
  for (const auto& point : log.train)
    if (const auto found = spike.look_at(point.loss)) result.spikes.emplace_back(point.step, *found);
  logs.emplace(run.seed, std::move(log));
  return result;
}

/// Speed and memory of an arm, from its finished runs.
void sum_up(ArmResult& arm) {
  std::vector<double> ms;
  for (const RunResult& run : arm.runs) {
    if (run.ms) ms.push_back(*run.ms);
    if (run.peak_mib) arm.peak_mib = std::max(arm.peak_mib.value_or(0), *run.peak_mib);
  }
  if (!ms.empty()) arm.ms = median(ms);
}

std::vector<std::string> differences_of(const SweepArm& arm, const SweepArm& baseline) {
  auto lines = differences(baseline.recipe, arm.recipe);
  std::erase_if(lines, [](const std::string& line) {
    return line.starts_with("name: ") || line.starts_with("description: ");
  });
  return lines;
}

std::vector<RunPair> pairs_of(const Logs& arm, const Logs& baseline) {
  std::vector<RunPair> pairs;
  for (const auto& [seed, log] : arm)
    if (const auto other = baseline.find(seed); other != baseline.end())
      pairs.push_back({log, other->second});
  return pairs;
}

void compare(ArmResult& arm, const Recipe& recipe, const std::vector<RunPair>& pairs, std::size_t seeds,
             bool baseline_blew_up, double tolerance, std::int64_t window) {
  if (pairs.empty()) {
    arm.reason = "no seed has finished runs of this arm and of the baseline";
    return;
  }
  std::vector<double> gaps;
  for (const RunPair& pair : pairs)
    gaps.push_back(pair.arm.validation.back().loss - pair.baseline.validation.back().loss);
  arm.gap = paired_gap(gaps, tolerance);
  arm.reason = no_verdict_because(pairs.size(), seeds, baseline_blew_up);
  if (!arm.reason.empty()) arm.gap->verdict = Verdict::not_resolved;
  for (const std::int64_t step : plan_changes(recipe)) {
    const std::int64_t count = std::min(steps_after_switch, recipe.train.steps - step);
    if (step == 0 || count < 1) continue;
    if (const auto after = gaps_after(pairs, step, count); !after.empty())
      arm.switches.push_back({step, count, paired_gap(after, tolerance)});
  }
  arm.validation_gap = validation_gaps(pairs);
  arm.training_gap = training_gaps(pairs, window);
}

bool blew_up(const ArmResult& arm) {
  return std::ranges::any_of(arm.runs, [](const RunResult& run) {
    return std::ranges::any_of(run.spikes, [](auto& spike) { return spike.second.unlearned.has_value(); });
  });
}

}  // namespace

std::vector<std::size_t> SweepResults::sorted(const std::string& baseline) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < arms.size(); ++i) order.push_back(i);
  const auto rank = [&](std::size_t i) {
    if (arms[i].name == baseline) return -std::numeric_limits<double>::infinity();
    return arms[i].gap ? arms[i].gap->mean : std::numeric_limits<double>::infinity();
  };
  std::ranges::stable_sort(order, {}, rank);
  return order;
}

std::size_t SweepResults::worst(const std::string& baseline) const {
  const auto order = sorted(baseline);
  const auto last = std::find_if(order.rbegin(), order.rend(), [&](auto i) { return bool(arms[i].gap); });
  return last == order.rend() ? order.front() : *last;
}

SweepResults collect_results(const SweepPlan& plan) {
  const Sweep& sweep = plan.sweep;
  SweepResults results;
  results.complete = true;
  std::vector<Logs> logs(sweep.arms.size());
  for (std::size_t i = 0; i < sweep.arms.size(); ++i) {
    ArmResult arm;
    arm.name = sweep.arms[i].name;
    arm.differences = differences_of(sweep.arms[i], sweep.baseline_arm());
    for (const SweepRun& run : plan.runs)
      if (run.arm == i) arm.runs.push_back(result_of(run, plan.vocabulary, logs[i]));
    sum_up(arm);
    std::vector<RunLog> finished;
    double sum = 0;
    for (const auto& [seed, log] : logs[i]) {
      finished.push_back(log);
      sum += log.validation.back().loss;
      if (log.floor) results.data_floor = log.floor;
    }
    if (!finished.empty()) {
      arm.mean_loss = sum / double(finished.size());
      arm.validation = validation_curve(finished);
      results.window = std::max(results.window, steps_per_point(finished, windows));
    }
    results.complete = results.complete && finished.size() == sweep.seeds.size();
    results.arms.push_back(std::move(arm));
  }
  const auto baseline = sweep.baseline_index();
  std::vector<double> deviations;
  for (std::size_t i = 0; i < results.arms.size(); ++i) {
    ArmResult& arm = results.arms[i];
    if (i == baseline) {
      arm.reason = "it is the baseline";
      continue;
    }
    const auto pairs = pairs_of(logs[i], logs[baseline]);
    compare(arm, sweep.arms[i].recipe, pairs, sweep.seeds.size(), blew_up(results.arms[baseline]),
            sweep.tolerance, results.window);
    if (arm.gap && arm.gap->pairs > 1)
      deviations.push_back(arm.gap->standard_error * std::sqrt(double(arm.gap->pairs)));
  }
  results.resolvable = resolvable_gap(deviations, int(sweep.seeds.size()));
  return results;
}

std::string no_verdict_because(std::size_t pairs, std::size_t seeds, bool baseline_blew_up) {
  // Whatever stands beside a run that lost what it had learned looks better.
  if (baseline_blew_up) return "the loss of the baseline blew up";
  // Whoever looks before all runs are there, and stops where he likes what he sees, fools himself.
  if (const std::size_t missing = seeds - pairs; missing > 0)
    return fmt::format("{} of {} pairs {} not finished", missing, seeds, missing == 1 ? "is" : "are");
  return seeds == 1 ? "one seed says nothing about others" : "";
}

std::string spikes_text(const ArmResult& arm) {
  std::string text;
  for (const RunResult& run : arm.runs)
    for (const auto& [step, spike] : run.spikes) {
      text += fmt::format("{}seed {} at step {}", text.empty() ? "" : ", ", run.seed, step);
      if (spike.unlearned) text += fmt::format(" (unlearned: {:.0f} %)", 100 * *spike.unlearned);
    }
  return text;
}

std::string verdict_text(const ArmResult& arm) {
  if (!arm.gap) return arm.reason;
  return arm.reason.empty() ? std::string(name_of(arm.gap->verdict))
                            : fmt::format("{}: {}", name_of(arm.gap->verdict), arm.reason);
}

}  // namespace mxtape
