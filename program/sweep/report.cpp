#include "program/sweep/report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "program/sweep/report_charts.h"
#include "program/sweep/svg_chart.h"

namespace mxtape {
namespace {

using svg::escaped;

/// Styles of the dashes of arms beyond the colours, in a key and in a picture.
constexpr std::array<std::array<std::string_view, 2>, svg::dashes> dash_styles{
    {{"solid", "none"}, {"dashed", "12 4"}, {"dotted", "3 4"}, {"double", "12 4 3 4"}}};

/// Okabe & Ito 2008, as mxtape plot has them, and lighter ones of the same hue for dark ground.
constexpr std::string_view style = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1b1b; --dim: #5b5b5b; --rule: #e3e3e3; --stripe: #0000000f;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b5568f; --c4: #2f95cc; --c5: #b97a00; }
@media (prefers-color-scheme: dark) { :root { --ground: #15171a; --ink: #e8e8e8; --dim: #a3a3a3; --rule: #33363a;
  --stripe: #ffffff14; --c0: #58b4ec; --c1: #ff8b3d; --c2: #35cf9f; --c3: #e79ccb; --c4: #9ad7ff; --c5: #f2b84b; } }
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { font-weight: 600; line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--dim); font-weight: 500; } .text { text-align: left; } code { font-size: .92em; }
.scroll { overflow-x: auto; } .dim { color: var(--dim); } .bad { font-weight: 600; }
.chart { width: 100%; height: auto; display: block; margin: 1rem 0; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .mark { fill: var(--dim); }
svg .title { font-size: 14px; } .grid { stroke: var(--rule); } .zero { stroke: var(--dim); }
.tolerance { fill: var(--stripe); } .line { fill: none; stroke-width: 2; } .whisker { stroke-opacity: .6; } .faint { fill: none; stroke-opacity: .45; }
.band { fill-opacity: .16; stroke: none; } .key { display: inline-block; width: 1.6em; vertical-align: middle; margin-right: .4em; border-top: .3em solid; }
)css";

constexpr std::string_view reading_help = R"html(<h2>How to read this</h2>
<p>Gaps are differences of the last validation loss between two runs of the same seed; the interval is that of
Student&#8217;s t for their mean. <em>within</em>: two one-sided tests at 5 % show that the gap lies inside the tolerance.
<em>worse</em>, <em>better</em>: the interval does not hold 0. <em>not resolved</em>: neither; more seeds may tell. One arm
in twenty without a real gap still looks worse or better: repeat what surprises you on new seeds.</p>
)html";

std::string colour_rules() {
  std::string out;
  for (std::size_t i = 0; i < svg::colours; ++i)
    out += fmt::format(
        ".line.c{0}, .faint.c{0}, .whisker.c{0} {{ stroke: var(--c{0}); }} .dot.c{0}, .band.c{0} {{ fill: "
        "var(--c{0}); }} "
        ".key.c{0} {{ border-color: var(--c{0}); }}\n",
        i);
  for (std::size_t i = 0; i < dash_styles.size(); ++i)
    out += fmt::format(
        ".key.d{0} {{ border-top-style: {1}; }} .line.d{0}, .faint.d{0} {{ stroke-dasharray: {2}; }}\n", i,
        dash_styles[i][0], dash_styles[i][1]);
  return out;
}

/// What is shown, around what is meant: the text of results.json.
std::string number(double value, const std::string& shown) {
  return fmt::format("<data value=\"{}\">{}</data>", Json(value).dump(), shown);
}
std::string loss_text(const std::optional<double>& loss) {
  return loss ? number(*loss, fmt::format("{:.4f}", *loss)) : std::string("-");
}

std::string key_of(std::size_t arm, const std::string& name) {
  return fmt::format("<span class=\"key {}\"></span>{}", svg::class_of(arm), escaped(name));
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
        key_of(i, arm.name), loss_text(arm.mean_loss),
        arm.gap ? number(arm.gap->mean, fmt::format("{:+.4f}", arm.gap->mean)) : "-",
        spread ? fmt::format("{} {}",
                             number(arm.gap->interval95[0], fmt::format("{:+.4f}", arm.gap->interval95[0])),
                             number(arm.gap->interval95[1], fmt::format("{:+.4f}", arm.gap->interval95[1])))
               : "-",
        spread ? number(arm.gap->p, fmt::format("{:.2g}", arm.gap->p)) : "-",
        arm.ms ? fmt::format("{:.1f}", *arm.ms) : "-",
        arm.peak_mib ? fmt::format("{:.0f}", *arm.peak_mib) : "-",
        arm.name == plan.sweep.baseline ? "baseline" : escaped(verdict_text(arm)));
  }
  return out + "</table></div>\n";
}

std::string runs_table(const SweepPlan& plan, const SweepResults& results) {
  std::string out = "<div class=\"scroll\"><table>\n<tr><th class=\"text\">loss of each seed</th>";
  for (const std::uint64_t seed : plan.sweep.seeds) out += fmt::format("<th>{}</th>", seed);
  out += "</tr>\n";
  for (const std::size_t i : results.sorted(plan.sweep.baseline)) {
    out += fmt::format("<tr><td class=\"text\">{}</td>", key_of(i, results.arms[i].name));
    for (const RunResult& run : results.arms[i].runs)
      out += run.loss ? fmt::format("<td>{}</td>", loss_text(run.loss))
                      : fmt::format("<td class=\"bad\" title=\"{}\">{}</td>", escaped(run.message),
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
          escaped(arm.name), cost.step, cost.steps,
          number(cost.gap.mean, fmt::format("{:+.4f}", cost.gap.mean)),
          cost.gap.pairs > 1 ? fmt::format(", standard error {:.4f}", cost.gap.standard_error) : "");
  return out.empty() ? "" : "<h2>Changes of formats</h2>\n<ul>\n" + out + "</ul>\n";
}

std::string spikes(const SweepResults& results) {
  std::string out;
  for (const ArmResult& arm : results.arms)
    if (const std::string text = spikes_text(arm); !text.empty())
      out += fmt::format("<li>{}: {}</li>\n", escaped(arm.name), text);
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
    out += fmt::format("<p>{}</p>\n<ul>\n", key_of(i, arm.name));
    for (const auto& line : arm.differences) out += fmt::format("<li><code>{}</code></li>\n", escaped(line));
    out += "</ul>\n";
  }
  return out;
}

std::string resolvable_text(const SweepPlan& plan, const SweepResults& results) {
  if (!std::isfinite(results.resolvable))
    return "It takes two finished seeds of an arm to tell a gap from none.";
  return fmt::format(
      "{} seeds tell a measured gap of {} from none at 95 %. Smaller ones are not resolved by these seeds.",
      plan.sweep.seeds.size(), number(results.resolvable, fmt::format("{:.4f}", results.resolvable)));
}

}  // namespace

std::string report_html(const SweepPlan& plan, const SweepResults& results) {
  const Sweep& sweep = plan.sweep;
  const Recipe& recipe = sweep.baseline_arm().recipe;
  const std::string title = escaped("sweep " + sweep.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width\"/>\n<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<h1>{}</"
      "h1>\n",
      title, style, colour_rules(), title);
  out += fmt::format(
      "<p>{} arms with seeds {}, {} steps each, on <code>{}</code>. Base <code>{}</code>, baseline "
      "<code>{}</code>. "
      "Arms share initial weights, batches and random draws, seed by seed. A gap within {} nats counts as "
      "none.</p>\n",
      sweep.arms.size(), fmt::join(sweep.seeds, ", "), plan.steps(), escaped(recipe.data.file),
      escaped(sweep.base), escaped(sweep.baseline), sweep.tolerance);
  if (!results.complete)
    out += "<p class=\"bad\">Not all runs are finished: verdicts are only given where they are.</p>\n";
  out += table(plan, results) + fmt::format("<p>{}</p>\n", resolvable_text(plan, results));
  if (results.data_floor)
    out += fmt::format("<p>The data's own entropy is {:.4f} nats per token: no model can be below it.</p>\n",
                       *results.data_floor);
  out += interval_chart(plan, results) + gap_chart(plan, results) + loss_chart(plan, results);
  out += spikes(results) + runs_table(plan, results) + switches(results) + arms_text(plan, results);
  out += fmt::format("{}<p class=\"dim\">{}; data hash {}.</p>\n", reading_help,
                     escaped(plan.arithmetics.front()), plan.data_hash);
  return out + "</body>\n</html>\n";
}

}  // namespace mxtape
