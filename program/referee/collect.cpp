#include "program/referee/referee.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/slots.h"
#include "core/parallel.h"
#include "program/plot/heat_map.h"
#include "program/show/command_line.h"
#include "train/high_loss.h"

namespace mxtape::referee {
namespace {

/// What the six slots of the middle linear layer round to in the last step; the bits are means over all but
/// the head.
void describe(Arm& arm, const Recipe& recipe) {
  const PrecisionPlan plan = precision_plan(recipe, recipe.train.steps - 1);
  const auto layers = linear_layer_names(recipe.model);
  for (const std::string& layer : layers)
    for (const auto& slot : linear_slots) {
      const Quantizer& q = plan.linear.at(layer).*slot.field;
      if (layer != "head") arm.bits += q.bits_per_element();
      if (layer == layers[layers.size() / 2])
        arm.slots.push_back(fmt::format("{} {}", slot.name, to_text(q)));
    }
  arm.bits /= double(slots_of_linear * (layers.size() - 1));
}

/// The records of a run's last measured step.
std::optional<Telemetry> telemetry_of(const std::filesystem::path& run) {
  std::error_code error;
  if (std::filesystem::file_size(run / "telemetry.jsonl", error) == 0 || error) return {};  // no rounding
  const TelemetryLog log = read_telemetry(run);
  std::map<std::string, std::vector<double>> values;  // squares of a slot; without one, cosines
  const auto last = log.records.back().at("step");
  for (const auto& record : log.records) {
    if (record.at("step") != last) continue;
    if (record.at("kind") == "operand" && record.at("in_use") == true)
      values[record.at("slot")].push_back(std::pow(record.at("relative_rmse").get<double>(), 2));
    if (record.at("kind") == "gradient" && record.at("slot") == "wgrad.dw")
      values[""].push_back(record.at("cosine"));
  }
  Telemetry telemetry;
  for (const auto& [slot, all] : values) {
    if (slot.empty())
      telemetry.alignment = mean(all);
    else
      telemetry.slots.push_back(slot), telemetry.relative_error.push_back(std::sqrt(mean(all)));
  }
  return telemetry;
}

/// A run among those of its size: its point, whether it is a trunk's, its seed.
using Turn = std::tuple<std::size_t, bool, std::uint64_t>;

/// Curve and spikes of a run and, before it, of its trunks.
void add_steps(Run& run, const SweepPlan& stage, const SweepRun& from, LossSpike& spike) {
  if (const SweepRun* trunk = stage.trunk_of(from)) add_steps(run, stage, *trunk, spike);
  const RunLog log = read_run_log(from.folder);
  for (const auto& point : log.train)
    if (const auto found = spike.look_at(point.loss))
      run.spikes.push_back({point.step, found->z, found->unlearned});
  for (const auto& point : log.validation) run.curve.push_back({point.step, point.loss});
}

constexpr std::int64_t steps_after_switch = 50;  // few enough to see the jump, enough to see past the noise

std::vector<Switch> switches(const SweepPlan& stage, const Results& results, const Logs& logs) {
  std::vector<Switch> all;
  for (const SweepArm& arm : stage.sweep.arms)
    for (const std::int64_t step : plan_changes(arm.recipe)) {
      const std::int64_t count = std::min(steps_after_switch, arm.recipe.train.steps - step);
      if (arm.arm == results.baseline || step == 0 || count < 1) continue;
      const auto after = gaps_after(pairs_of(logs[arm.arm], logs[results.baseline]), step, count);
      if (!after.empty()) all.push_back({arm.arm, step, count, paired_gap(after, results.asked.tolerance)});
    }
  return all;
}

}  // namespace

Results asked(const RefereeFile& file) {
  Results results;
  results.asked = file;
  results.version = MXTAPE_VERSION, results.commit = source_commit();
  results.sizes = file.sizes, results.points = file.points;
  const Sweep point = file.sweep(file.points.front());
  results.baseline = point.baseline_index();
  for (const SweepArm& arm : point.arms) {
    Arm& made = results.arms.emplace_back();
    made.name = arm.name;
    made.differences = differences(point.baseline_arm().recipe, arm.recipe);
    std::erase_if(made.differences, [](const std::string& line) { return line.starts_with("name: "); });
    describe(made, arm.recipe);
  }
  for (const Family& family : file.families)
    for (const std::size_t arm : family.arms) results.arms[arm].family = family.name;
  return results;
}

void add_runs(Results& results, const SweepPlan& plan, Stage of) {
  results.arithmetic = plan.arithmetics[plan.sweep.baseline_index()], results.times.device = plan.device;
  results.times.cores = threads();
  results.data_file = plan.sweep.arms.front().recipe.data.file, results.data_hash = plan.data_hash;
  Logs logs(results.arms.size());
  std::map<std::pair<std::size_t, std::size_t>, std::map<Turn, double>> ms;     // by size and arm
  std::multimap<std::pair<std::size_t, std::size_t>, const SweepRun*> ordered;  // by point and arm
  for (const SweepRun& run : plan.runs)
    ordered.emplace(std::pair(plan.arm_of(run).point, plan.arm_of(run).arm), &run);
  for (const auto& [at, from] : ordered) {
    const SweepArm& arm = plan.arm_of(*from);
    const std::size_t size = results.points[arm.point].size;
    if (!results.has_points()) results.arms[arm.arm].recipe = to_toml(arm.recipe);  // with what was tuned
    std::optional<RunLog> log;
    if (from->state == RunState::finished) {
      log = read_run_log(from->folder);
      ms[{size, arm.arm}][{arm.point, arm.is_trunk, from->seed}] = log->median_milliseconds;
    }
    if (arm.is_trunk) continue;
    Run& run = results.runs.emplace_back(Run{arm.point, arm.arm, from->seed, of});
    RunTime& time = results.times.runs.emplace_back();
    run.folder = from->folder.lexically_relative(plan.out).string();
    run.state = name_of(from->state), run.learning_rate = double(arm.recipe.optim.learning_rate);
    if (from->record)
      run.code = from->record->code, results.times.threads = from->record->threads,
      time = {{}, from->record->peak_mib, from->record->seconds, from->record->threads};
    if (from->state == RunState::failed && from->record) run.message = from->record->message;
    if (has_failed(plan, *from) && from->state != RunState::failed)
      run.state = "failed", run.message = "its trunk diverged";
    if (log) {
      LossSpike spike(plan.vocabulary);
      add_steps(run, plan, *from, spike);
      run.loss = run.curve.back().loss, time.ms = log->median_milliseconds;
      run.telemetry = telemetry_of(from->folder);
      if (log->floor) results.floor = log->floor;
      if (!results.has_points()) logs[arm.arm].emplace(from->seed, *std::move(log));
    }
  }
  for (const auto& [at, turns] : ms) {
    std::vector<double> all, ratios;
    const auto baseline = ms.find({at.first, results.baseline});
    for (const auto& [turn, one] : turns) {
      all.push_back(one);
      if (baseline != ms.end() && baseline->second.contains(turn))
        ratios.push_back(one / baseline->second.at(turn));
    }
    const auto ratio = ratios.empty() ? std::nullopt : std::optional(median(ratios));
    results.times.steps.push_back({of, at.first, at.second, median(all), ratio, std::int64_t(all.size())});
  }
  if (!results.has_points()) results.switches = switches(plan, results, logs);
}

void add_work(Results& results, const SweepPlan& stage, bool planned) {
  for (const SweepRun& run : stage.runs) {
    const std::int64_t step = stage.arm_of(run).recipe.tokens_per_step(),
                       done = planned || run.state == RunState::finished ? run.steps : run.steps_done;
    results.tokens_trained += (done - run.first_step) * step;
    if (!stage.arm_of(run).is_trunk && done > run.first_step) results.tokens_apart += done * step;
    if (run.record) results.times.seconds_of_runs += run.record->seconds;
  }
}

std::vector<std::size_t> add_tunes(Results& results, const SweepPlan& stage) {
  const Question& file = results.asked;
  std::vector<std::size_t> best_values;
  const std::size_t values = file.tuned_values.size();
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    std::size_t best = values;
    std::vector<Tuned> tried;
    for (std::size_t value = 0; value < values; ++value) {
      Tuned& tuned = tried.emplace_back(Tuned{arm, file.tuned_values[value]});
      double sum = 0;
      for (const SweepRun& run : stage.runs)
        if (stage.arm_of(run).arm == arm && stage.arm_of(run).point == value &&
            run.state == RunState::finished)
          sum += read_run_log(run.folder).validation.back().loss, ++tuned.runs;
      if (tuned.runs > 0) tuned.loss = sum / double(tuned.runs);
      const bool whole = tuned.runs == std::int64_t(file.tune.size());
      if (whole && (best == values || *tuned.loss < *tried[best].loss)) best = value;
    }
    if (best == values && is_over(stage))
      results.not_run.push_back(fmt::format("tune: no {} suits '{}': the middle one stands in",
                                            file.tuned_key, results.arms[arm].name));
    if (best < values) tried[best].best = true, tried[best].edge = best == 0 || best + 1 == values;
    best_values.push_back(best < values ? best : values / 2);
    results.tunes.insert(results.tunes.end(), tried.begin(), tried.end());
  }
  return best_values;
}

void choose_arms(Results& results) {
  const auto loss = [&](std::size_t arm) {
    double sum = 0;
    for (const Run& run : results.runs)
      if (run.arm == arm && run.stage == Stage::select) sum += run.loss.value_or(INFINITY);
    return sum;
  };
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    const auto is_better = [&](std::size_t other) {
      return std::pair(loss(other), other) < std::pair(loss(arm), arm);
    };
    const auto family = std::ranges::find(results.asked.families, results.arms[arm].family, &Family::name);
    results.arms[arm].chosen = results.asked.best == 0 || family == results.asked.families.end() ||
                               std::ranges::count_if(family->arms, is_better) < results.asked.best;
  }
}

}  // namespace mxtape::referee
