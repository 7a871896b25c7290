#include <fmt/ranges.h>

#include <cmath>

#include "core/parallel.h"
#include "program/show/report.h"
#include "program/sweep/sweep_results.h"
#include "recipes/recipe.h"

namespace mxtape {
namespace {

constexpr const char* one_pair = "one pair has no spread";
constexpr const char* unwatched = "no sweep watched the process to its end";

Value value_of(const PairedGap& gap) {
  const auto interval = [](const std::array<double, 2>& ends) {
    return std::isfinite(ends[0]) ? Value(ends) : Value(nullptr, one_pair);
  };
  return object("pairs", gap.pairs, "mean", gap.mean, "standard_error", Value(gap.standard_error, one_pair),
                "interval95", interval(gap.interval95), "interval90", interval(gap.interval90), "p", gap.p);
}

Value value_of(const RunResult& run) {
  const std::string why = run.state == RunState::failed ? run.message : "the run is not finished";
  Table spikes("step; z; unlearned");
  for (const auto& [step, spike] : run.spikes)
    spikes.row(step, spike.z, Value(spike.unlearned, "less than half of what was learned"));
  return object("seed", run.seed, "state", name_of(run.state), "loss", Value(run.loss, why), "ms",
                Value(run.ms, why), "peak_mib", Value(run.peak_mib, unwatched), "seconds",
                Value(run.seconds, unwatched), "threads",
                run.threads ? Value(run.threads) : Value(nullptr, unwatched), "spikes", spikes, "folder",
                run.folder, "code", run.code, "message", run.message);
}

Value value_of(const ArmResult& arm) {
  std::vector<Value> runs;
  for (const RunResult& run : arm.runs) runs.push_back(value_of(run));
  Value json = object("name", arm.name, "differences", arm.differences, "runs", runs, "mean_loss",
                      Value(arm.mean_loss, "no run is finished"));
  if (!arm.gap) {
    put(json, "gap", Value(nullptr, arm.reason));
    return json;
  }
  Table switches("step; steps; jump");
  for (const SwitchCost& cost : arm.switches) switches.row(cost.step, cost.steps, value_of(cost.gap));
  put(json, "gap",
      object("*", value_of(*arm.gap), "verdict", name_of(arm.gap->verdict), "reason", arm.reason), "switches",
      switches);
  return json;
}

std::string p_text(double p) { return p < 1e-4 ? fmt::format("{:.0e}", p) : fmt::format("{:.4f}", p); }

std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

/// RFC 4180: quotes where a comma or a quote would break the line.
std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

Value value_of(const SweepPlan& plan, const SweepResults& results) {
  const Sweep& sweep = plan.sweep;
  const auto baseline = sweep.baseline_index();
  std::vector<Value> arms;
  for (std::size_t i = 0; i < results.arms.size(); ++i)
    arms.push_back(object("*", value_of(results.arms[i]), "recipe", to_toml(sweep.arms[i].recipe)));
  return object("file", sweep.file, "base", sweep.base, "baseline", sweep.baseline, "seeds", sweep.seeds,
                "tolerance", sweep.tolerance, "steps", plan.steps(), "complete", results.complete, "program",
                object("version", MXTAPE_VERSION, "arithmetic", plan.arithmetics.at(baseline)), "machine",
                object("device", plan.device, "cores", threads()), "data",
                object("file", sweep.arms.front().recipe.data.file, "hash", plan.data_hash, "floor",
                       Value(results.data_floor, "the data does not carry its entropy")),
                "resolvable_gap", Value(results.resolvable, "it takes two finished seeds of an arm"), "arms",
                arms);
}

std::string results_csv(const SweepPlan& plan, const SweepResults& results) {
  std::string out = "arm,seed,state,loss,gap,ms,peak_mib,seconds\n";
  const auto baseline = plan.sweep.baseline_index();
  for (const ArmResult& arm : results.arms)
    for (std::size_t k = 0; k < arm.runs.size(); ++k) {
      const RunResult &run = arm.runs[k], &base = results.arms[baseline].runs[k];
      const auto gap = run.loss && base.loss ? std::optional(*run.loss - *base.loss) : std::nullopt;
      out += fmt::format("{},{},{},{},{},{},{},{}\n", csv_text(arm.name), run.seed, name_of(run.state),
                         number(run.loss), number(gap), number(run.ms), number(run.peak_mib),
                         number(run.seconds));
    }
  return out;
}

std::string results_table(const SweepPlan& plan, const SweepResults& results, std::size_t width) {
  Table table("|arm; |loss|>.4f; |gap|>+.4f; |95 % interval|>; |p|>|2; |ms|>.1f|1; |verdict");
  for (const std::size_t i : results.sorted(plan.sweep.baseline)) {
    const ArmResult& arm = results.arms[i];
    const bool spread = arm.gap && arm.gap->pairs > 1;
    table.row(arm.name, arm.mean_loss, arm.gap ? Value(arm.gap->mean) : "-",
              spread ? fmt::format("{:+.4f} {:+.4f}", arm.gap->interval95[0], arm.gap->interval95[1]) : "-",
              spread ? p_text(arm.gap->p) : "-", arm.ms,
              arm.name == plan.sweep.baseline ? "baseline" : verdict_text(arm));
  }
  std::string out = table.text(width);
  out += fmt::format("tolerance {}; ", plan.sweep.tolerance);
  out += std::isfinite(results.resolvable)
             ? fmt::format("{} seeds tell a gap of {:.4f} from none\n", plan.sweep.seeds.size(),
                           results.resolvable)
             : std::string("it takes two finished seeds of an arm to tell a gap from none\n");
  for (const ArmResult& arm : results.arms)
    for (const SwitchCost& cost : arm.switches)
      out += fmt::format("{}: formats change at step {}; training loss of the next {} steps {:+.4f}{}\n",
                         arm.name, cost.step, cost.steps, cost.gap.mean,
                         cost.gap.pairs > 1 ? fmt::format(" +- {:.4f}", cost.gap.standard_error) : "");
  for (const ArmResult& arm : results.arms)
    if (const std::string spikes = spikes_text(arm); !spikes.empty())
      out += fmt::format("{}: spikes of the training loss: {}\n", arm.name, spikes);
  return out;
}

}  // namespace mxtape
