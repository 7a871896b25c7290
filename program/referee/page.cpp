#include "program/referee/charts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/text/base64.h"
#include "program/referee/statistics.h"
#include "program/show/report.h"

namespace mxtape::referee {

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

namespace {

constexpr std::string_view style = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1b1b; --dim: #5b5b5b; --rule: #e3e3e3; }
@media screen and (prefers-color-scheme: dark) { :root { --ground: #15171a; --ink: #e8e8e8; --dim: #a3a3a3; --rule: #33363a; } }
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 66rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { font-weight: 600; line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); vertical-align: top; white-space: nowrap; }
th { color: var(--dim); font-weight: 500; } td:last-child { white-space: normal; min-width: 8rem; }
td:first-child, th:first-child, td:last-child, th:last-child { text-align: left; } code { font-size: .92em; }
.scroll { overflow-x: auto; } .dim { color: var(--dim); } .bad { font-weight: 600; }
img { width: 100%; height: auto; display: block; margin: 1rem 0; }
.methods th:first-child, .methods td:first-child { position: sticky; left: 0; background: var(--ground); }
.methods th { white-space: normal; vertical-align: bottom; } .methods span { display: block; font-size: .85em; white-space: normal; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
@media print { body { font-size: 9pt; max-width: none; margin: 0; } th, td { padding: .15rem .3rem; } .scroll { overflow: visible; }
  h2 { break-after: avoid; } tr, img { break-inside: avoid; } .charts { grid-template-columns: 1fr 1fr; } }
)css";

constexpr std::string_view reading_help = R"html(<h2>How to read this</h2>
<p>Gaps are differences of the last validation loss between runs of the same seed; intervals are at 95 %, Student&#8217;s t of
their mean. <em>within</em>: two one-sided tests at 5 % show that the gap lies inside the tolerance. <em>worse</em>,
<em>better</em>: the interval does not hold 0, also after Holm&#8217;s correction for a family. <em>not resolved</em>: none of
these; more seeds may tell. One method in twenty without a real gap still looks worse or better: repeat what surprises you
on new seeds. A step&#8217;s ratio to the baseline&#8217;s is of runs with the same seed, so that what slows the machine for a
while meets both.</p>
)html";
constexpr std::string_view points_help =
    R"html(<p>An efficiency of 0.8 in tokens: the baseline has the method&#8217;s loss after
0.8 of its tokens, interpolated between lengths and never extrapolated. effN and effD are the same of parameters and tokens
under the law, where it holds. The break-even speed-up is how many times as fast as the baseline&#8217;s a method&#8217;s steps
must be before it pays.</p>
)html";

/// What is shown, around what is meant: the text that results.json has.
std::string html_number(double value, const std::string& shown) {
  return fmt::format("<data value=\"{}\">{}</data>", json_line(value), shown);
}
std::string shown(const Estimate& e, const char* form = "{:.2f}") {
  const auto text = [&](double x) {
    return std::isfinite(x) ? html_number(x, fmt::format(fmt::runtime(form), x)) : std::string("never");
  };
  if (!e.interval95) return text(e.value);
  return fmt::format("{} <span class=\"dim\">({} to {})</span>", text(e.value), text((*e.interval95)[0]),
                     text((*e.interval95)[1]));
}

using Row = std::vector<std::string>;
/// Without the columns in which nothing is.
std::string table(const Row& head, const std::vector<Row>& rows) {
  std::vector<Row> shown(rows.size() + 1);
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (std::ranges::all_of(rows, [&](const Row& row) { return row[i].empty() || row[i] == "-"; })) continue;
    shown[0].push_back(head[i]);
    for (std::size_t k = 0; k < rows.size(); ++k) shown[k + 1].push_back(rows[k][i]);
  }
  if (rows.empty()) return "";
  std::string out =
      fmt::format("<div class=\"scroll\"><table>\n<tr><th>{}</th></tr>\n", fmt::join(shown[0], "</th><th>"));
  for (std::size_t k = 1; k < shown.size(); ++k)
    out += fmt::format("<tr><td>{}</td></tr>\n", fmt::join(shown[k], "</td><td>"));
  return out + "</table></div>\n";
}
std::string section(const std::string& heading, const std::string& body) {
  return body.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", heading, body);
}
std::string gap_text(const PairedGap& gap) {
  Estimate e{.value = gap.mean};
  if (gap.pairs > 1) e.interval95 = gap.interval95;
  return shown(e, "{:+.4f}");
}
std::string dim(const std::string& text) { return "<span class=\"dim\">" + text + "</span>"; }
const char* seeds_of(const Results& r, Stage stage) {
  return r.asked.confirm.empty() ? "" : stage == Stage::select ? "first" : "confirm";
}

/// "7.5 ms", and below it how often the baseline's.
std::string step_text(const StepTime& time, bool compared) {
  return html_number(time.ms, fmt::format("{:.1f} ms", time.ms)) +
         (compared && time.ratio ? dim(fmt::format("{:.2f} of the baseline", *time.ratio)) : "");
}

/// At the largest point.
std::string methods(const Results& r) {
  std::size_t point = r.points.size() - 1;  // the largest that was judged
  while (point > 0 && std::ranges::none_of(
                          r.gaps, [&](const Gap& g) { return g.stage == r.judged() && g.point == point; }))
    --point;
  std::vector<Row> rows;
  for (const std::size_t a : r.sorted(point)) {
    Row row(12, "-");
    row[0] = html_escaped(r.arms[a].name), row[1] = fmt::format("{:.2f}", r.arms[a].bits);
    if (const auto loss = mean_of(r.losses(point, a, r.judged())))
      row[2] = html_number(*loss, fmt::format("{:.4f}", *loss));
    for (const Efficiency& e : r.efficiencies)  // the last: the largest size, then the longest
      if (e.arm == a && e.stage == r.judged() && e.along == Efficiency::Along::tokens && e.ratio)
        row[3] = shown(*e.ratio);
    for (const LawArm& of : r.law.arms)
      if (of.arm == a && r.law.holds) row[4] = shown(of.parameters), row[5] = shown(of.tokens);
    if (const StepTime* time = r.step_time(r.points[point].size, a))
      row[6] = step_text(*time, a != r.baseline);
    for (const BreakEven& k : r.break_even)
      if (k.arm == a) row[7] = k.speed_up ? shown(*k.speed_up) : dim(html_escaped(k.why));
    if (const Gap* gap = r.gap(point, a, r.judged())) {
      row[8] = gap_text(gap->gap);
      if (gap->gap.pairs > 1) row[9] = html_number(gap->holm, fmt::format("{:.2g}", gap->holm));
    }
    std::optional<double> most;
    for (std::size_t i = 0; i < r.times.runs.size(); ++i)
      if (r.runs[i].arm == a && r.runs[i].point == point && r.times.runs[i].peak_mib)
        most = std::max(most.value_or(0), *r.times.runs[i].peak_mib);
    if (most) row[10] = fmt::format("{:.0f}", *most);
    row[11] = html_escaped(word_on(r, point, a));
    rows.push_back(row);
  }
  std::string out = "<div class=\"methods\">\n" +
                    table({r.has_points() ? "method" : "arm", "bits", "loss", "efficiency in tokens", "effN",
                           "effD", "step", "break-even speed-up", "gap [nats]",
                           r.asked.families.empty() ? "p" : "p, Holm", "MiB", "verdict"},
                          rows) +
                    "</div>\n";
  if (r.has_points())
    out += fmt::format(
        "<p class=\"dim\">Loss, gap, step and verdict at {}, with seeds {}. The efficiency is that of the "
        "largest "
        "size and longest length that has one. Steps on {}.</p>\n",
        html_escaped(r.points[point].name), fmt::join(r.seeds(r.judged()), ", "),
        html_escaped(r.times.device));
  out += r.resolvable_gap
             ? fmt::format(
                   "<p>{} seeds tell a measured gap of {} from none at 95 %. Smaller ones are not "
                   "resolved by these seeds.</p>\n",
                   r.seeds(r.judged()).size(),
                   html_number(*r.resolvable_gap, fmt::format("{:.4f}", *r.resolvable_gap)))
             : std::string("<p>It takes two finished seeds of an arm to tell a gap from none.</p>\n");
  return out + (!r.has_points() || r.law.holds
                    ? ""
                    : fmt::format("<p>No effN and effD: {}.</p>\n", html_escaped(r.law.why)));
}

std::string curves_of(const Results& r, const std::vector<std::string>& curves) {
  if (r.has_points()) return "";
  std::string out;
  for (const auto& svg : curves)
    out += fmt::format("<img alt=\"curves\" src=\"data:image/svg+xml;base64,{}\"/>\n", to_base64(svg));
  return out.empty()
             ? "<p class=\"dim\">No pictures: gnuplot was not there or failed, or there was nothing to "
               "draw.</p>\n"
             : out;
}

std::string reached(const Results& r) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < r.steps_to.size(); ++i) {
    const Reached &steps = r.steps_to[i], &seconds = r.times.seconds_to[i];
    const auto cell = [](const Reached& of, const char* form) {
      const std::string ratio = of.ratio ? dim(shown(*of.ratio) + " of the baseline") : "";
      return of.mean ? html_number(*of.mean, fmt::format(fmt::runtime(form), *of.mean)) + ratio : "never";
    };
    rows.push_back({html_escaped(r.points[steps.point].name), fmt::format("{}", steps.loss),
                    html_escaped(r.arms[steps.arm].name), seeds_of(r, steps.stage), cell(steps, "{:.0f}"),
                    cell(seconds, "{:.4g}"),
                    steps.never ? fmt::format("{} of {} seeds never", steps.never, steps.runs + steps.never)
                                : std::string()});
  }
  return rows.empty()
             ? ""
             : "<p>Means over the seeds that have the loss. Between two validations a run goes on a "
               "straight line; seconds are of steps alone.</p>\n<div class=\"methods\">\n" +
                   table({"point", "loss [nats]", "method", "seeds", "steps", "seconds", "note"}, rows) +
                   "</div>\n";
}

std::string losses(const Results& r) {
  if (r.has_points()) return "";
  std::vector<Row> rows;
  for (const std::size_t arm : r.sorted(0)) {
    Row row{html_escaped(r.arms[arm].name)};
    for (const std::uint64_t seed : r.seeds(r.judged())) {
      const Run* run = r.run(0, arm, r.judged(), seed);
      row.push_back(run && run->loss ? html_number(*run->loss, fmt::format("{:.4f}", *run->loss))
                    : run            ? fmt::format("<span class=\"bad\" title=\"{}\">{}</span>",
                                                   html_escaped(run->message), run->state)
                                     : "");
    }
    rows.push_back(row);
  }
  Row head{"loss of each seed"};
  for (const std::uint64_t seed : r.seeds(r.judged())) head.push_back(fmt::format("{}", seed));
  return table(head, rows);
}

std::string list(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += fmt::format("<li>{}</li>\n", html_escaped(line));
  return out.empty() ? "" : "<ul>\n" + out + "</ul>\n";
}

/// Which method has the lowest loss after the same seconds.
std::string race(const Results& r) {
  std::string out;
  for (const Chart& chart : loss_charts(r, true)) {
    double end = INFINITY;
    for (const auto& line : chart.lines)
      if (line.marks.size() > 1) end = std::min(end, line.marks.back().x);
    std::vector<std::pair<double, std::string>> there;
    for (const auto& line : chart.lines) {
      LossCurve curve;
      for (const auto& mark : line.marks) curve.x.push_back(mark.x), curve.loss.push_back(mark.y);
      if (const auto loss = curve.loss_at(end)) there.emplace_back(*loss, html_escaped(line.name));
    }
    std::ranges::sort(there);
    if (!there.empty())
      out += fmt::format("<li>{}: after {} s {} has the lowest loss of {}, {}</li>\n",
                         html_escaped(chart.title), with_prefix(end), there[0].second, there.size(),
                         html_number(there[0].first, fmt::format("{:.4f}", there[0].first)));
  }
  return out.empty() ? "" : "<p>When the first method has taken its steps:</p>\n<ul>\n" + out + "</ul>\n";
}

std::string law(const Results& r) {
  const Law& law = r.law;
  if (!law.fitted) return fmt::format("<p>None was fitted: {}.</p>\n", html_escaped(law.why));
  const auto digits = [](double x) { return html_number(x, fmt::format("{:.4g}", x)); };
  return fmt::format(
             "<p>L(N, D) = (A / (effN N)<sup>alpha</sup> + B / (effD D)<sup>beta</sup>)<sup>gamma</sup> + E "
             "with A = {}, alpha = {}, B = "
             "{}, beta = {}, gamma = {}, E = {} ({}). {} The baseline is off it by at most {:.2f} % of its "
             "loss; the limit is {:.2f} %. "
             "Intervals: {} draws over seeds.</p>\n",
             digits(law.A), digits(law.alpha), digits(law.B), digits(law.beta), digits(law.gamma),
             digits(law.E), law.floor_known ? "the data&#8217;s entropy" : "fitted",
             law.holds ? "It holds here." : "<b>It does not hold here.</b>", 100 * law.worst, 100 * law.limit,
             law.draws) +
         pictures(law_charts(r));
}

std::string all_gaps(const Results& r) {
  std::vector<Row> rows;
  for (const Gap& g : r.gaps)
    rows.push_back({html_escaped(r.points[g.point].name), html_escaped(r.arms[g.arm].name),
                    seeds_of(r, g.stage), gap_text(g.gap), fmt::format("{:.2g}", g.gap.p),
                    fmt::format("{:.2g}", g.holm), html_escaped(verdict_text(g))});
  return table({"point", "method", "seeds", "gap [nats]", "p", "Holm", "verdict"}, rows);
}

std::string contrasts(const Results& r) {
  std::vector<Row> rows;
  for (const ContrastResult& c : r.contrast_results)
    rows.push_back({html_escaped(r.points[c.point].name), html_escaped(r.asked.contrasts[c.contrast].text),
                    seeds_of(r, c.stage), gap_text(c.gap), fmt::format("{:.2g}", c.gap.p),
                    fmt::format("{:.2g}", c.holm), html_escaped(c.reason)});
  return table({"point", "sum of arms", "seeds", "nats", "p", "Holm", "note"}, rows);
}

std::string correlations(const Results& r) {
  std::vector<Row> rows;
  for (const Correlation& c : r.correlations)
    rows.push_back({html_escaped(r.points[c.point].name), html_escaped(c.measure), fmt::format("{}", c.arms),
                    shown(c.rank), html_escaped(c.rank.why)});
  return table({"point", "measure of the last step", "arms", "rank correlation with the gap", "note"}, rows);
}

std::string tuning(const Results& r) {
  std::string edges;
  for (const Tuned& t : r.tunes)
    if (t.best && t.edge)
      edges += fmt::format("<li>{}: {:g} is the best, and the end of the list</li>\n",
                           html_escaped(r.arms[t.arm].name), t.value);
  return r.tunes.empty()
             ? ""
             : pictures(tuning_charts(r)) + (edges.empty() ? "" : "<ul class=\"bad\">\n" + edges + "</ul>\n");
}

std::string spikes(const Results& r) {
  const auto lines = spike_lines(r);
  return lines.empty() ? ""
                       : "<p>A loss has blown up if more than half of what was learned is unlearned. Nothing "
                         "is resolved against a baseline whose loss did: a lower learning rate, or a longer "
                         "warm-up, may give one whose loss does not.</p>\n" +
                             list(lines);
}

std::string arms(const Results& r) {
  std::vector<Row> rows;
  for (const Arm& a : r.arms) {
    if (a.differences.empty()) continue;
    Row differences;
    for (const auto& line : a.differences) differences.push_back(html_escaped(line));
    rows.push_back({html_escaped(a.name), html_escaped(a.family),
                    fmt::format("<code>{}</code>", fmt::join(differences, "<br/>"))});
  }
  return table({"arm", "family", "differs by"}, rows);
}

}  // namespace

std::string page(const Results& r, const std::vector<std::string>& curves) {
  const std::string title = html_escaped((r.has_points() ? "referee " : "sweep ") + r.asked.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      title, style);
  out += fmt::format(
      "<p>{} arms {}, on <code>{}</code>; base <code>{}</code>, baseline <code>{}</code>. Seeds {}; verdicts "
      "are of "
      "{}. Arms share initial weights, batches and random draws, seed by seed. The tolerance is {} nats: "
      "<i>within</i> says that the gap was shown to be smaller. {} gaps and {} sums of arms were looked "
      "at.</p>\n",
      r.arms.size(),
      r.has_points() ? fmt::format("at {} sizes and {} lengths, {} points", r.sizes.size(),
                                   r.asked.lengths.size(), r.points.size())
                     : fmt::format("with {} steps each", r.points[0].steps),
      html_escaped(r.data_file), html_escaped(r.asked.base), html_escaped(r.asked.baseline),
      fmt::join(r.asked.select, ", "),
      r.asked.confirm.empty() ? std::string("these")
                              : fmt::format("seeds {} alone", fmt::join(r.asked.confirm, ", ")),
      r.asked.tolerance, r.gaps.size(), r.contrast_results.size());
  if (!r.complete)
    out += "<p class=\"bad\">Not all runs are finished: verdicts are only given where they are.</p>\n";
  out += methods(r) + curves_of(r, curves);
  if (r.has_points())
    out += section("Gaps", pictures(gap_charts(r))) +
           section("Loss", pictures(loss_charts(r, false)) + race(r) + pictures(loss_charts(r, true))) +
           section("The law", law(r));
  out += section("Steps to a loss", reached(r)) + section("Sums of arms", contrasts(r)) +
         section("Do rounding errors predict the gap?", correlations(r)) +
         section("Learning rates", tuning(r)) + section("Spikes of the training loss", spikes(r)) +
         section("Changes of formats", list(switch_lines(r))) + section("What was not run", list(r.not_run)) +
         losses(r) + section("All gaps", r.has_points() || !r.asked.confirm.empty() ? all_gaps(r) : "") +
         section("What differs from the baseline", arms(r));
  if (r.floor)
    out += fmt::format(
        "<p>The data&#8217;s own entropy is {:.4f} nats per token: no model can be below it.</p>\n",
        *r.floor);
  out += reading_help;
  if (r.has_points()) out += points_help;
  out +=
      fmt::format("<p class=\"dim\">{}; data hash {}; commit {}. {} tokens trained",
                  html_escaped(r.arithmetic), r.data_hash, r.commit, with_prefix(double(r.tokens_trained)));
  if (r.has_points())
    out += fmt::format("; {} with each length by itself", with_prefix(double(r.tokens_apart)));
  return out + ".</p>\n</body>\n</html>\n";
}

}  // namespace mxtape::referee
