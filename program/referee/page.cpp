#include "program/referee/charts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "program/referee/statistics.h"
#include "program/sweep/sweep_results.h"

namespace mxtape::referee {
namespace {

// On top of a sweep's.
constexpr std::string_view style = R"css(
body { max-width: 66rem; } th, td { white-space: nowrap; } td:last-child { white-space: normal; min-width: 8rem; }
td:first-child, th:first-child, td:last-child, th:last-child, td:nth-child(2), th:nth-child(2) { text-align: left; }
.methods th:first-child, .methods td:first-child { position: sticky; left: 0; background: var(--ground); }
.methods th { white-space: normal; vertical-align: bottom; } .methods span { display: block; font-size: .85em; white-space: normal; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
@media print { body { font-size: 9pt; max-width: none; margin: 0; } th, td { padding: .15rem .3rem; } .scroll { overflow: visible; }
  h2 { break-after: avoid; } tr, img { break-inside: avoid; } .charts { grid-template-columns: 1fr 1fr; } }
)css";

constexpr std::string_view reading_help = R"html(<h2>How to read this</h2>
<p>Gaps are differences of the last validation loss between runs of the same seed; intervals are at 95 %. An
efficiency of 0.8 in tokens: the baseline has the method&#8217;s loss after 0.8 of its tokens, interpolated between lengths
and never extrapolated. effN and effD are the same of parameters and tokens under the law, where it holds. The break-even
speed-up is how many times as fast as the baseline&#8217;s a method&#8217;s steps must be before it pays. <em>within</em>: two
one-sided tests at 5 % show that the gap lies inside the tolerance. <em>worse</em>, <em>better</em>: the interval does not
hold 0, also after Holm&#8217;s correction for a family. <em>not resolved</em>: none of these.</p>
)html";

std::string shown(const Estimate& e, int digits = 2) {
  const auto text = [&](double x) {
    return std::isfinite(x) ? html_number(x, fmt::format("{:.{}f}", x, digits)) : std::string("never");
  };
  if (!e.interval95) return text(e.value);
  return fmt::format("{} <span class=\"dim\">({} to {})</span>", text(e.value), text((*e.interval95)[0]),
                     text((*e.interval95)[1]));
}

using Row = std::vector<std::string>;
std::string table(const Row& head, const std::vector<Row>& rows) {
  if (rows.empty()) return "";
  std::string out =
      fmt::format("<div class=\"scroll\"><table>\n<tr><th>{}</th></tr>\n", fmt::join(head, "</th><th>"));
  for (const Row& row : rows) out += fmt::format("<tr><td>{}</td></tr>\n", fmt::join(row, "</td><td>"));
  return out + "</table></div>\n";
}
std::string section(const std::string& heading, const std::string& body) {
  return body.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", heading, body);
}
std::string gap_text(const PairedGap& gap) {
  Estimate e{.value = gap.mean};
  if (gap.pairs > 1) e.interval95 = gap.interval95;
  return shown(e, 4);
}
std::string dim(const std::string& text) { return "<span class=\"dim\">" + text + "</span>"; }
const char* seeds_of(Stage stage) { return stage == Stage::select ? "first" : "confirm"; }

std::string methods(const Results& r) {
  const Gap* last = nullptr;  // of the largest point that was judged
  for (const Gap& g : r.gaps)
    if (g.stage == r.judged() && (!last || g.point > last->point)) last = &g;
  std::vector<Row> rows;
  for (std::size_t a = 0; a < r.arms.size(); ++a) {
    Row row(9, "-");
    row[0] = html_escaped(r.arms[a].name), row[1] = fmt::format("{:.2f}", r.arms[a].bits);
    for (const Efficiency& e : r.efficiencies)  // the last: the largest size, then the longest
      if (e.arm == a && e.stage == r.judged() && e.along == Efficiency::Along::tokens && e.ratio)
        row[2] = shown(*e.ratio);
    for (const LawArm& of : r.law.arms)
      if (of.arm == a && r.law.holds) row[3] = shown(of.parameters), row[4] = shown(of.tokens);
    for (const BreakEven& k : r.break_even)
      if (k.arm == a) row[6] = k.speed_up ? shown(*k.speed_up) : dim(html_escaped(k.why));
    for (const Gap& g : r.gaps)
      if (g.arm == a && g.stage == r.judged() && g.point == last->point)
        row[7] = gap_text(g.gap), row[8] = html_escaped(verdict_text(g));
    const std::size_t size = last ? r.points[last->point].size : 0;
    if (const auto ms = step_ms(r, size, a), base = step_ms(r, size, r.baseline); ms && base)
      row[5] = html_number(*ms, fmt::format("{:.1f} ms", *ms)) +
               dim(fmt::format("{:.2f} of the baseline", *ms / *base));
    if (a == r.baseline) row[8] = "baseline";
    if (!r.asked.confirm.empty() && !r.arms[a].chosen) row[8] = "not chosen on the first seeds";
    rows.push_back(row);
  }
  std::string out = "<div class=\"methods\">\n" +
                    table({"method", "bits", "efficiency in tokens", "effN", "effD", "step",
                           "break-even speed-up", "gap [nats]", "verdict"},
                          rows) +
                    "</div>\n";
  if (last)
    out += fmt::format(
        "<p class=\"dim\">Gap, step and verdict at {}, with seeds {}. The efficiency is that of the largest "
        "size and longest length that "
        "has one. Steps on {}.</p>\n",
        html_escaped(r.points[last->point].name), fmt::join(r.seeds(r.judged()), ", "),
        html_escaped(r.times.device));
  return out + (r.law.holds ? "" : fmt::format("<p>No effN and effD: {}.</p>\n", html_escaped(r.law.why)));
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
    rows.push_back({html_escaped(r.points[g.point].name), html_escaped(r.arms[g.arm].name), seeds_of(g.stage),
                    gap_text(g.gap), fmt::format("{:.2g}", g.gap.p), fmt::format("{:.2g}", g.holm),
                    html_escaped(verdict_text(g))});
  return table({"point", "method", "seeds", "gap [nats]", "p", "Holm", "verdict"}, rows);
}

std::string contrasts(const Results& r) {
  std::vector<Row> rows;
  for (const ContrastResult& c : r.contrast_results)
    rows.push_back({html_escaped(r.points[c.point].name), html_escaped(r.asked.contrasts[c.contrast].text),
                    seeds_of(c.stage), gap_text(c.gap), fmt::format("{:.2g}", c.gap.p),
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
  std::vector<Row> rows;
  for (const Run& run : r.runs)
    for (const Spike& spike : run.spikes)
      rows.push_back({html_escaped(r.points[run.point].name), html_escaped(r.arms[run.arm].name),
                      fmt::format("{}", run.seed), fmt::format("{}", spike.step),
                      fmt::format("{:.1f}", spike.z),
                      spike.unlearned ? fmt::format("{:.0f} % unlearned", 100 * *spike.unlearned) : ""});
  return rows.empty() ? "<p>None.</p>\n"
                      : table({"point", "method", "seed", "step", "z", "note"}, rows) +
                            "<p>Nothing is resolved against a baseline that blew up.</p>\n";
}

std::string arms(const Results& r) {
  std::vector<Row> rows;
  for (const Arm& a : r.arms) {
    Row differences;
    for (const auto& line : a.differences) differences.push_back(html_escaped(line));
    rows.push_back({html_escaped(a.name), html_escaped(a.family),
                    fmt::format("<code>{}</code>", fmt::join(differences, "<br/>"))});
  }
  return table({"method", "family", "differs from the baseline by"}, rows);
}

}  // namespace

std::string page(const Results& r) {
  const std::string title = html_escaped("referee " + r.asked.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width\"/>\n"
      "<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      title, report_style, style);
  out += fmt::format(
      "<p>{} methods at {} sizes and {} lengths, {} points, on <code>{}</code>; baseline {}. First seeds {}; "
      "{}. Methods of a point share "
      "initial weights, batches and random draws, seed by seed. <i>Within</i> {} nats: shown to be smaller. {} gaps "
      "and {} sums of arms were looked at.</p>\n",
      r.arms.size(), r.sizes.size(), r.asked.lengths.size(), r.points.size(), html_escaped(r.data_file),
      html_escaped(r.asked.baseline), fmt::join(r.asked.select, ", "),
      r.asked.confirm.empty()
          ? std::string("verdicts are of these")
          : fmt::format("verdicts are of seeds {} alone", fmt::join(r.asked.confirm, ", ")),
      r.asked.tolerance, r.gaps.size(), r.contrast_results.size());
  std::string missing;
  for (const auto& line : r.not_run) missing += "<li>" + html_escaped(line) + "</li>\n";
  if (!r.complete)
    out += "<p class=\"bad\">Not all runs are finished: verdicts are only given where they are.</p>\n";
  out += methods(r) + section("Gaps", pictures(gap_charts(r))) +
         section("Loss", pictures(loss_charts(r, false)) + race(r) + pictures(loss_charts(r, true))) +
         section("The law", law(r)) + section("Sums of arms", contrasts(r)) +
         section("Do rounding errors predict the gap?", correlations(r)) +
         section("Learning rates", tuning(r)) + section("Spikes of the training loss", spikes(r)) +
         section("What was not run", missing.empty() ? "" : "<ul>\n" + missing + "</ul>\n") +
         section("All gaps", all_gaps(r)) + section("The methods", arms(r));
  if (r.floor)
    out += fmt::format(
        "<p>The data&#8217;s own entropy is {:.4f} nats per token: no model can be below it.</p>\n",
        *r.floor);
  return out + fmt::format(
                   "{}<p class=\"dim\">mxtape {} {}; {}; data hash {}. {} tokens trained; {} with each "
                   "length by itself.</p>\n"
                   "</body>\n</html>\n",
                   reading_help, r.version, r.commit, html_escaped(r.arithmetic), r.data_hash,
                   with_prefix(double(r.tokens_trained)), with_prefix(double(r.tokens_apart)));
}

}  // namespace mxtape::referee
