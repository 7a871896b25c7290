#include "program/sweep/sweep_results.h"

#include <fmt/ranges.h>

#include <cmath>

#include "core/text/base64.h"
#include "program/show/report.h"

namespace mxtape {
const std::string_view report_style = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1b1b; --dim: #5b5b5b; --rule: #e3e3e3; }
@media screen and (prefers-color-scheme: dark) { :root { --ground: #15171a; --ink: #e8e8e8; --dim: #a3a3a3; --rule: #33363a; } }
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { font-weight: 600; line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--dim); font-weight: 500; } .text { text-align: left; } code { font-size: .92em; }
.scroll { overflow-x: auto; } .dim { color: var(--dim); } .bad { font-weight: 600; }
img { width: 100%; height: auto; display: block; margin: 1rem 0; }
)css";

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string html_number(double value, const std::string& shown) {
  return fmt::format("<data value=\"{}\">{}</data>", json_line(value), shown);
}

namespace {

constexpr std::string_view reading_help = R"html(<h2>How to read this</h2>
<p>Gaps are differences of the last validation loss between two runs of the same seed; the interval is that of
Student&#8217;s t for their mean. <em>within</em>: two one-sided tests at 5 % show that the gap lies inside the tolerance.
<em>worse</em>, <em>better</em>: the interval does not hold 0. <em>not resolved</em>: neither; more seeds may tell. One arm
in twenty without a real gap still looks worse or better: repeat what surprises you on new seeds.</p>
)html";

std::string gap_text(double gap) { return html_number(gap, fmt::format("{:+.4f}", gap)); }
std::string loss_text(const std::optional<double>& loss) {
  return loss ? html_number(*loss, fmt::format("{:.4f}", *loss)) : std::string("-");
}

std::string table(const SweepPlan& plan, const SweepResults& results) {
  std::string out =
      "<div class=\"scroll\"><table>\n<tr><th class=\"text\">arm</th><th>loss</th><th>gap</th><th>95 % "
      "interval</th><th>p</th><th>ms a step</th><th>MiB</th><th class=\"text\">verdict</th></tr>\n";
  for (const std::size_t i : results.sorted(plan.sweep.baseline)) {
    const ArmResult& arm = results.arms[i];
    const bool spread = arm.gap && arm.gap->pairs > 1;
    out += fmt::format(
        "<tr><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
        "class=\"text\">{}</td></tr>\n",
        html_escaped(arm.name), loss_text(arm.mean_loss), arm.gap ? gap_text(arm.gap->mean) : "-",
        spread ? fmt::format("{} {}", gap_text(arm.gap->interval95[0]), gap_text(arm.gap->interval95[1]))
               : "-",
        spread ? html_number(arm.gap->p, fmt::format("{:.2g}", arm.gap->p)) : "-",
        arm.ms ? fmt::format("{:.1f}", *arm.ms) : "-",
        arm.peak_mib ? fmt::format("{:.0f}", *arm.peak_mib) : "-",
        arm.name == plan.sweep.baseline ? "baseline" : html_escaped(verdict_text(arm)));
  }
  return out + "</table></div>\n";
}

std::string runs_table(const SweepPlan& plan, const SweepResults& results) {
  std::string out = "<div class=\"scroll\"><table>\n<tr><th class=\"text\">loss of each seed</th>";
  for (const std::uint64_t seed : plan.sweep.seeds) out += fmt::format("<th>{}</th>", seed);
  out += "</tr>\n";
  for (const std::size_t i : results.sorted(plan.sweep.baseline)) {
    out += fmt::format("<tr><td class=\"text\">{}</td>", html_escaped(results.arms[i].name));
    for (const RunResult& run : results.arms[i].runs)
      out += run.loss ? fmt::format("<td>{}</td>", loss_text(run.loss))
                      : fmt::format("<td class=\"bad\" title=\"{}\">{}</td>", html_escaped(run.message),
                                    name_of(run.state));
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string switches(const SweepResults& results) {
  std::string out;
  for (const ArmResult& arm : results.arms)
    for (const SwitchCost& cost : arm.switches)
      out += fmt::format(
          "<li>{}: formats change at step {}. The training loss of the next {} steps lies {} above "
          "the baseline's{}.</li>\n",
          html_escaped(arm.name), cost.step, cost.steps, gap_text(cost.gap.mean),
          cost.gap.pairs > 1 ? fmt::format(", standard error {:.4f}", cost.gap.standard_error) : "");
  return out.empty() ? "" : "<h2>Changes of formats</h2>\n<ul>\n" + out + "</ul>\n";
}

std::string spikes(const SweepResults& results) {
  std::string out;
  for (const ArmResult& arm : results.arms)
    if (const std::string text = spikes_text(arm); !text.empty())
      out += fmt::format("<li>{}: {}</li>\n", html_escaped(arm.name), text);
  if (out.empty()) return "";
  return "<h2>Spikes of the training loss</h2>\n<p>A loss has blown up if more than half of what was learned "
         "is unlearned. Nothing is resolved against a baseline whose loss did: a lower learning rate, or a "
         "longer warm-up, may give one whose loss does not.</p>\n<ul>\n" +
         out + "</ul>\n";
}

std::string arms_text(const SweepPlan& plan, const SweepResults& results) {
  std::string out = "<h2>What differs from the baseline</h2>\n";
  for (const std::size_t i : results.sorted(plan.sweep.baseline)) {
    const ArmResult& arm = results.arms[i];
    if (arm.name == plan.sweep.baseline) continue;
    out += fmt::format("<p>{}</p>\n<ul>\n", html_escaped(arm.name));
    for (const auto& line : arm.differences)
      out += fmt::format("<li><code>{}</code></li>\n", html_escaped(line));
    out += "</ul>\n";
  }
  return out;
}

std::string resolvable_text(const SweepPlan& plan, const SweepResults& results) {
  if (!std::isfinite(results.resolvable))
    return "It takes two finished seeds of an arm to tell a gap from none.";
  return fmt::format(
      "{} seeds tell a measured gap of {} from none at 95 %. Smaller ones are not resolved by these seeds.",
      plan.sweep.seeds.size(), html_number(results.resolvable, fmt::format("{:.4f}", results.resolvable)));
}

}  // namespace

std::string report_html(const SweepPlan& plan, const SweepResults& results,
                        const std::vector<std::string>& pictures) {
  const Sweep& sweep = plan.sweep;
  const Recipe& recipe = sweep.baseline_arm().recipe;
  const std::string title = html_escaped("sweep " + sweep.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width\"/>\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</"
      "h1>\n",
      title, report_style, title);
  out += fmt::format(
      "<p>{} arms with seeds {}, {} steps each, on <code>{}</code>. Base <code>{}</code>, baseline "
      "<code>{}</code>. "
      "Arms share initial weights, batches and random draws, seed by seed. The tolerance is {} nats: <i>within</i> "
      "says that the gap was shown to be smaller.</p>\n",
      sweep.arms.size(), fmt::join(sweep.seeds, ", "), plan.steps(), html_escaped(recipe.data.file),
      html_escaped(sweep.base), html_escaped(sweep.baseline), sweep.tolerance);
  if (!results.complete)
    out += "<p class=\"bad\">Not all runs are finished: verdicts are only given where they are.</p>\n";
  out += table(plan, results) + fmt::format("<p>{}</p>\n", resolvable_text(plan, results));
  if (results.data_floor)
    out += fmt::format("<p>The data's own entropy is {:.4f} nats per token: no model can be below it.</p>\n",
                       *results.data_floor);
  for (const auto& svg : pictures)
    out += fmt::format("<img alt=\"curves\" src=\"data:image/svg+xml;base64,{}\"/>\n", to_base64(svg));
  if (pictures.empty())
    out +=
        "<p class=\"dim\">No pictures: gnuplot was not there or failed, or there was nothing to draw.</p>\n";
  out += spikes(results) + runs_table(plan, results) + switches(results) + arms_text(plan, results);
  out += fmt::format("{}<p class=\"dim\">{}; data hash {}.</p>\n", reading_help,
                     html_escaped(plan.arithmetics[sweep.baseline_index()]), plan.data_hash);
  return out + "</body>\n</html>\n";
}

}  // namespace mxtape
