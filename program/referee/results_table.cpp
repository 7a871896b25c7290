#include <fmt/format.h>

#include <cmath>
#include <regex>

#include "program/sweep/results.h"

namespace mxtape::referee {

namespace {

/// Of the stage that verdicts are of.
Table steps_to_table(const Results& r) {
  Table table(
      fmt::format("|{}; |arm; |to~[nats]|>; |steps|>.0f; |times~the~baseline's|>; |seconds|>.4g; "
                  "|times~the~baseline's|>; |never|>",
                  r.has_points() ? "point" : ""));
  const auto ratio = [](const std::optional<Estimate>& of) {
    if (!of || !of->interval95) return of ? fmt::format("{:.3f}", of->value) : std::string("-");
    return fmt::format("{:.3f} ({:.3f} {:.3f})", of->value, (*of->interval95)[0], (*of->interval95)[1]);
  };
  for (std::size_t i = 0; i < r.steps_to.size(); ++i)
    if (const Reached& steps = r.steps_to[i], &seconds = r.times.seconds_to[i]; steps.stage == r.judged())
      table.row(r.points[steps.point].name, r.arms[steps.arm].name, steps.loss, steps.mean,
                ratio(steps.ratio), seconds.mean, ratio(seconds.ratio), steps.never);
  return table;
}

std::string p_text(double p) { return p < 1e-4 ? fmt::format("{:.0e}", p) : fmt::format("{:.4f}", p); }

}  // namespace

std::optional<double> mean_of(const std::vector<std::optional<double>>& losses) {
  double sum = 0, count = 0;
  for (const auto& loss : losses)
    if (loss) sum += *loss, ++count;
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

std::string word_on(const Results& r, std::size_t point, std::size_t arm) {
  const Gap* gap = r.gap(point, arm, r.judged());
  if (arm == r.baseline) return "baseline";
  if (!r.asked.confirm.empty() && !r.arms[arm].chosen) return "not chosen on the first seeds";
  return gap ? verdict_text(*gap) : "no seed has finished runs of this arm and of the baseline";
}

std::vector<std::string> spike_lines(const Results& r) {
  std::vector<std::string> lines;
  const Run* before = nullptr;
  for (const Run& run : r.runs)
    for (const Spike& spike : run.spikes) {
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

std::string results_csv(const Results& r) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format(",{}", *value) : ",";
  };
  // RFC 4180: quotes where a comma or a quote would break the line.
  const auto quoted = [](const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    return "\"" + std::regex_replace(text, std::regex("\""), "\"\"") + "\"";
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
  const bool corrected = !r.asked.families.empty();
  Table table(
      fmt::format("|{}; |arm; |loss|>.4f; |gap|>+.4f; |95 % interval|>; |{}|>|2; |ms|>.1f|1; |verdict",
                  r.has_points() ? "point" : "", corrected ? "Holm p" : "p"));
  std::string below = fmt::format("tolerance {}; ", r.asked.tolerance);
  below += r.resolvable_gap ? fmt::format("{} seeds tell a gap of {:.4f} from none\n",
                                          r.seeds(r.judged()).size(), *r.resolvable_gap)
                            : std::string("it takes two finished seeds of an arm to tell a gap from none\n");
  for (const auto& line : switch_lines(r)) below += line + "\n";
  for (const auto& line : spike_lines(r)) below += "spikes of the training loss: " + line + "\n";
  for (std::size_t point = 0; point < r.points.size(); ++point)
    for (const std::size_t arm : r.sorted(point)) {
      const auto losses = r.losses(point, arm, r.judged());
      const Gap* gap = r.gap(point, arm, r.judged());
      const bool spread = gap && gap->gap.pairs > 1;
      const StepTime* time = r.step_time(r.points[point].size, arm);
      table.row(r.points[point].name, r.arms[arm].name, mean_of(losses), gap ? Value(gap->gap.mean) : "-",
                spread ? fmt::format("{:+.4f} {:+.4f}", gap->gap.interval95[0], gap->gap.interval95[1]) : "-",
                spread ? p_text(gap->holm) : "-", time ? Value(time->ms) : "-", word_on(r, point, arm));
    }
  return table.text(width) + below + steps_to_table(r).text(width);
}

}  // namespace mxtape::referee
