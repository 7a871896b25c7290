#include "program/referee/shown.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace mxtape::referee {
namespace {

const Value none{std::optional<double>()};  // "-"

/// None unless all of the stage's seeds, and at least two, are there.
Value p_value(const Results& r, Stage stage, const PairedGap& gap, double p) {
  if (gap.pairs < 2 || std::size_t(gap.pairs) < r.seeds(stage).size()) return none;
  return Value(p, "", p < 1e-4 ? fmt::format("{:.0e}", p) : fmt::format("{:.4f}", p));
}
Value mean_value(const PairedGap& gap) { return gap.pairs > 0 ? Value(gap.mean) : none; }
/// None of one seed, which has no spread.
Value interval_value(const PairedGap& gap) {
  if (gap.pairs < 2) return none;
  const auto& [low, high] = gap.interval95;
  return Value(std::vector{low, high}, "", fmt::format("{:+.4f} {:+.4f}", low, high));
}
/// "0.812 (0.790 to 0.834)"; of what is infinite "never".
Value estimate_value(const Estimate& e) {
  const auto text = [](double x) { return std::isfinite(x) ? fmt::format("{:.3f}", x) : "never"; };
  if (!e.interval95) return Value(e.value, "", text(e.value));
  const auto& [low, high] = *e.interval95;
  return Value(std::vector{e.value, low, high}, "",
               fmt::format("{} ({} to {})", text(e.value), text(low), text(high)));
}
Value estimate_value(const std::optional<Estimate>& e) { return e ? estimate_value(*e) : none; }

/// Whose seeds, if there are two kinds.
const char* seeds_of(const Results& r, Stage stage) {
  return r.asked.confirm.empty() ? "" : stage == Stage::select ? "first" : "confirm";
}

/// "baseline", the verdict, or why there is none.
std::string word_on(const Results& r, const Gap* gap, std::size_t point, std::size_t arm, Stage stage) {
  if (arm == r.baseline) return "baseline";
  if (!gap) return r.why_open(point, arm, stage, 0, "pairs", r.baseline);
  return std::string(name_of(gap->verdict)) + (gap->reason.empty() ? "" : ": " + gap->reason);
}

bool has_losses(const Results& r, Stage stage, std::optional<std::size_t> point = {}) {
  return std::ranges::any_of(r.runs, [&](const Run& run) {
    return run.stage == stage && run.loss && run.point == point.value_or(run.point);
  });
}

/// Most memory of an arm's runs at a point.
std::optional<double> peak_of(const Results& r, std::size_t point, std::size_t arm) {
  std::optional<double> most;
  for (std::size_t i = 0; i < r.times.runs.size(); ++i)
    if (r.runs[i].arm == arm && r.runs[i].point == point) most = std::max(most, r.times.runs[i].peak_mib);
  return most;
}

}  // namespace

std::optional<double> mean_of(const std::vector<std::optional<double>>& losses) {
  double sum = 0, count = 0;
  for (const auto& loss : losses)
    if (loss) sum += *loss, ++count;
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

Stage shown_stage(const Results& r) { return has_losses(r, r.judged()) ? r.judged() : Stage::select; }

std::size_t largest_shown(const Results& r) {
  std::size_t point = 0;
  for (const Gap& gap : r.gaps)
    if (gap.stage == shown_stage(r) && gap.gap.pairs > 0) point = std::max(point, gap.point);
  return point;
}

Table verdicts(const Results& r, std::size_t first, std::size_t last, Stage stage, bool whole) {
  const auto if_whole = [&](const char* heading) { return whole ? heading : ""; };
  Table table(fmt::format(
      "|{}; |{}; |arm; |{}|>.2f; |loss|>.4f; |gap|>+.4f; |95 % interval|>; |{}|>|2; |{}|>|1; |{}|>; |{}|>; "
      "|ms|>.1f|1; |{}|>.2f; |{}|>; |{}|>.0f; |verdict",
      last - first > 1 ? "point" : "", whole || stage != r.judged() ? "seeds" : "", if_whole("bits"),
      r.asked.families.empty() ? "p" : "Holm p", r.has_points() ? "efficiency" : "", if_whole("effN"),
      if_whole("effD"), if_whole("of the baseline's"), if_whole("break-even speed-up"), if_whole("MiB")));
  const std::size_t largest = largest_shown(r);
  for (std::size_t point = first; point < last; ++point)
    for (const std::size_t arm : r.sorted(point)) {
      const Gap* gap = r.gap(point, arm, stage);
      const auto* efficiency = first_of(
          r.efficiencies, [&](auto& e) { return e.arm == arm && e.point == point && e.stage == stage; });
      const auto* law = first_of(
          r.law.arms, [&](auto& x) { return x.arm == arm && point == largest && r.law.holds_for(x); });
      const auto* even = first_of(r.break_even, [&](auto& k) { return k.arm == arm && point == largest; });
      const StepTime* time = stage == r.judged() ? r.step_time(r.points[point].size, arm) : nullptr;
      const auto loss = mean_of(r.losses(point, arm, stage));
      if (!loss && (stage != r.judged() || !has_losses(r, stage, point))) continue;
      table.row(r.points[point].name, seeds_of(r, stage), r.arms[arm].name, r.arms[arm].bits, loss,
                gap ? mean_value(gap->gap) : none, gap ? interval_value(gap->gap) : none,
                gap && !r.blew_up(point, r.baseline, stage) ? p_value(r, stage, gap->gap, gap->holm) : none,
                efficiency ? estimate_value(efficiency->ratio) : none,
                law ? estimate_value(law->parameters) : none, law ? estimate_value(law->tokens) : none,
                time ? Value(time->ms) : none, time && arm != r.baseline ? Value(time->ratio) : none,
                even ? even->speed_up ? estimate_value(*even->speed_up) : Value(even->why) : none,
                peak_of(r, point, arm), word_on(r, gap, point, arm, stage));
    }
  return table;
}

Table steps_to_table(const Results& r) {
  Table table(
      fmt::format("|{}; |arm; |to~[nats]|>; |steps|>.0f; |times~the~baseline's|>; |seconds|>.4g; "
                  "|times~the~baseline's|>; |never|>",
                  r.has_points() ? "point" : ""));
  for (std::size_t i = 0; i < r.steps_to.size(); ++i)
    if (const Reached& steps = r.steps_to[i], &seconds = r.times.seconds_to[i]; steps.stage == r.judged())
      table.row(r.points[steps.point].name, r.arms[steps.arm].name, steps.loss, steps.mean,
                estimate_value(steps.ratio), seconds.mean, estimate_value(seconds.ratio), steps.never);
  return table;
}

Table contrasts_table(const Results& r) {
  Table table(fmt::format("|{}; |{}; |sum of arms; |nats|>+.4f; |95 % interval|>; |p|>; |Holm p|>; |note",
                          r.has_points() ? "point" : "", r.asked.confirm.empty() ? "" : "seeds"));
  for (const ContrastResult& c : r.contrast_results)
    table.row(r.points[c.point].name, seeds_of(r, c.stage), r.asked.contrasts[c.contrast].text,
              mean_value(c.gap), interval_value(c.gap), p_value(r, c.stage, c.gap, c.gap.p),
              p_value(r, c.stage, c.gap, c.holm), c.reason);
  return table;
}

Table correlations_table(const Results& r) {
  Table table("|point; |measure of the last step; |arms|>; |rank correlation with the gap|>; |note");
  for (const Correlation& c : r.correlations)
    table.row(r.points[c.point].name, c.measure, c.arms, estimate_value(c.rank), c.rank.why);
  return table;
}

Table losses_by_seed(const Results& r) {
  std::string columns = "|loss of each seed";
  for (const std::uint64_t seed : r.seeds(r.judged())) columns += fmt::format("; |{}|>.4f", seed);
  Table table(columns);
  for (const std::size_t arm : r.sorted(0)) {
    std::vector<Value> cells{r.arms[arm].name};
    for (const std::uint64_t seed : r.seeds(r.judged())) {
      const Run* run = r.run(0, arm, r.judged(), seed);
      cells.push_back(!run ? none : run->loss ? Value(*run->loss) : Value(run->state));
    }
    table.row(std::move(cells));
  }
  return table;
}

std::vector<std::string> spike_lines(const Results& r) {
  std::vector<std::string> lines;
  // Lengths share a trunk, and its spikes.
  std::set<std::tuple<std::size_t, std::size_t, std::uint64_t, std::int64_t, double>> said;
  const Run* before = nullptr;
  for (const Run& run : r.runs)
    for (const Spike& spike : run.spikes) {
      if (!said.emplace(r.points[run.point].size, run.arm, run.seed, spike.step, spike.z).second) continue;
      const bool same = before && before->point == run.point && before->arm == run.arm;
      if (!same)
        lines.push_back(r.points[run.point].name + (r.has_points() ? " " : "") + r.arms[run.arm].name + ":");
      lines.back() += fmt::format("{} seed {} at step {}", same ? "," : "", run.seed, spike.step);
      if (spike.unlearned) lines.back() += fmt::format(" (unlearned: {:.0f} %)", 100 * *spike.unlearned);
      before = &run;
    }
  return lines;
}

std::vector<std::string> switch_lines(const Results& r) {
  std::vector<std::string> lines;
  for (const Switch& cost : r.switches)
    lines.push_back(
        fmt::format("{}: formats change at step {}; training loss of the next {} steps {:+.4f}{}",
                    r.arms[cost.arm].name, cost.step, cost.steps, cost.jump.mean,
                    cost.jump.pairs > 1 ? fmt::format(" +- {:.4f}", cost.jump.standard_error) : ""));
  return lines;
}

std::string resolution(const Results& r, const std::string& gap) {
  if (r.resolvable_gap)
    return fmt::format("{} seeds tell a gap of {} from none{}", r.seeds(r.judged()).size(), gap,
                       r.has_points() ? " at the largest point" : "");
  if (shown_stage(r) == r.judged()) return "it takes two finished seeds of an arm to tell a gap from none";
  return fmt::format("verdicts wait for the runs of seeds {}", fmt::join(r.asked.confirm, ", "));
}

std::string results_csv(const Results& r) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format(",{}", *value) : ",";
  };
  // RFC 4180: quotes where a comma or a quote would break the line.
  const auto quoted = [](const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string all = "\"";
    for (const char c : text) all.append(c == '"' ? 2 : 1, c);
    return all + "\"";
  };
  std::string out = r.has_points() ? "point,stage,arm" : "arm";
  out += ",seed,state,loss,gap,ms,peak_mib,seconds";
  for (const double loss : r.asked.steps_to) out += fmt::format(",steps_to_{0},seconds_to_{0}", loss);
  for (std::size_t i = 0; i < r.runs.size(); ++i) {
    const Run& run = r.runs[i];
    const RunTime& time = r.times.runs[i];
    const Run* base = r.run(run.point, r.baseline, run.stage, run.seed);
    out += "\n";
    if (r.has_points())
      out += quoted(r.points[run.point].name) + (run.stage == Stage::select ? ",select," : ",confirm,");
    out += fmt::format("{},{},{}", quoted(r.arms[run.arm].name), run.seed, run.state) + number(run.loss) +
           number(run.loss && base && base->loss ? std::optional(*run.loss - *base->loss) : std::nullopt) +
           number(time.ms) + number(time.peak_mib) + number(time.seconds);
    for (const double loss : r.asked.steps_to) {
      const auto steps = steps_to(run.curve, loss);
      out +=
          number(steps) + number(steps ? std::optional(*steps * time.ms.value_or(NAN) / 1e3) : std::nullopt);
    }
  }
  return out + "\n";
}

std::string results_table(const Results& r, std::size_t width) {
  std::string below = fmt::format("tolerance {}; {}\n", r.asked.tolerance,
                                  resolution(r, fmt::format("{:.4f}", r.resolvable_gap.value_or(0))));
  for (const auto& line : switch_lines(r)) below += line + "\n";
  for (const auto& line : spike_lines(r)) below += "spikes of the training loss: " + line + "\n";
  return verdicts(r, 0, r.points.size(), shown_stage(r), false).text(width) + below +
         contrasts_table(r).text(width) + steps_to_table(r).text(width);
}

}  // namespace mxtape::referee
