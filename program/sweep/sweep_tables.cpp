#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "program/sweep/sweep_results.h"
#include "program/text_table.h"
#include "recipes/recipe.h"

namespace mxtape {
namespace {

constexpr const char* one_pair = "one pair has no spread";
constexpr const char* unwatched = "no sweep watched the process to its end";

Json json_of(const PairedGap& gap) {
  Json json{{"pairs", gap.pairs}, {"mean", gap.mean}};
  put_number(json, "standard_error", gap.standard_error, one_pair);
  const auto interval = [&](const char* name, const std::array<double, 2>& ends) {
    if (std::isfinite(ends[0]))
      json[name] = ends;
    else
      put_unknown(json, name, one_pair);
  };
  interval("interval95", gap.interval95);
  interval("interval90", gap.interval90);
  json["p"] = gap.p;
  return json;
}

Json json_of(const RunResult& run) {
  Json json{{"seed", run.seed}, {"state", name_of(run.state)}};
  const std::string why = run.state == RunState::failed ? run.message : "the run is not finished";
  put_number(json, "loss", run.loss, why);
  put_number(json, "ms", run.ms, why);
  put_number(json, "peak_mib", run.peak_mib, unwatched);
  put_number(json, "seconds", run.seconds, unwatched);
  json["threads"] = run.threads;
  if (run.threads == 0) put_unknown(json, "threads", unwatched);
  json["spikes"] = Json::array();
  for (const auto& [step, spike] : run.spikes) {
    Json& entry = json["spikes"].emplace_back(Json{{"step", step}, {"z", spike.z}});
    put_number(entry, "unlearned", spike.unlearned, "less than half of what was learned");
  }
  json["folder"] = run.folder;
  json["code"] = run.code;
  json["message"] = run.message;
  return json;
}

Json json_of(const ArmResult& arm) {
  Json json{{"name", arm.name}, {"differences", arm.differences}, {"runs", Json::array()}};
  for (const RunResult& run : arm.runs) json["runs"].push_back(json_of(run));
  put_number(json, "mean_loss", arm.mean_loss, "no run is finished");
  if (!arm.gap) {
    put_unknown(json, "gap", arm.reason);
    return json;
  }
  json["gap"] = json_of(*arm.gap);
  json["gap"]["verdict"] = name_of(arm.gap->verdict);
  json["gap"]["reason"] = arm.reason;
  json["switches"] = Json::array();
  for (const SwitchCost& cost : arm.switches) {
    Json entry{{"step", cost.step}, {"steps", cost.steps}};
    entry["jump"] = json_of(cost.gap);
    json["switches"].push_back(std::move(entry));
  }
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

Json results_json(const SweepPlan& plan, const SweepResults& results) {
  const Sweep& sweep = plan.sweep;
  const auto baseline = std::size_t(&sweep.baseline_arm() - sweep.arms.data());
  Json json{{"file", sweep.file},          {"base", sweep.base},           {"baseline", sweep.baseline},
            {"seeds", sweep.seeds},        {"tolerance", sweep.tolerance}, {"steps", plan.steps()},
            {"complete", results.complete}};
  json["program"] = {{"version", MXTAPE_VERSION}, {"arithmetic", plan.arithmetics.at(baseline)}};
  json["machine"] = {{"device", plan.device}, {"cores", threads()}};
  json["data"] = {{"file", sweep.arms.front().recipe.data.file}, {"hash", plan.data_hash}};
  put_number(json["data"], "floor", results.data_floor, "the data does not carry its entropy");
  put_number(json, "resolvable_gap", results.resolvable, "it takes two finished seeds of an arm");
  json["arms"] = Json::array();
  for (std::size_t i = 0; i < results.arms.size(); ++i) {
    json["arms"].push_back(json_of(results.arms[i]));
    json["arms"].back()["recipe"] = to_toml(sweep.arms[i].recipe);
  }
  return json;
}

std::string results_csv(const SweepPlan& plan, const SweepResults& results) {
  std::string out = "arm,seed,state,loss,gap,ms,peak_mib,seconds\n";
  const auto baseline = std::size_t(&plan.sweep.baseline_arm() - plan.sweep.arms.data());
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
  TextTable table({{"arm", true},
                   {"loss"},
                   {"gap"},
                   {"95 % interval"},
                   {"p", false, 2},
                   {"ms", false, 1},
                   {"verdict", true}});
  for (const std::size_t i : results.sorted(plan.sweep.baseline)) {
    const ArmResult& arm = results.arms[i];
    const bool spread = arm.gap && arm.gap->pairs > 1;
    table.row({arm.name, arm.mean_loss ? fmt::format("{:.4f}", *arm.mean_loss) : "-",
               arm.gap ? fmt::format("{:+.4f}", arm.gap->mean) : "-",
               spread ? fmt::format("{:+.4f} {:+.4f}", arm.gap->interval95[0], arm.gap->interval95[1]) : "-",
               spread ? p_text(arm.gap->p) : "-", arm.ms ? fmt::format("{:.1f}", *arm.ms) : "-",
               arm.name == plan.sweep.baseline ? "baseline" : verdict_text(arm)});
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
