#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text/base64.h"
#include "program/referee/shown.h"

namespace mxtape::referee {

std::string html_escaped(std::string_view text) {
  static const std::map<char, std::string> signs{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string out;
  for (const char c : text) out += signs.contains(c) ? signs.at(c) : std::string(1, c);
  return out;
}

namespace {

constexpr std::string_view style = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1b1b; --dim: #5b5b5b; --rule: #e3e3e3; }
@media screen and (prefers-color-scheme: dark) { :root { --ground: #15171a; --ink: #e8e8e8; --dim: #a3a3a3; --rule: #33363a; } }
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 74rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2 { font-weight: 600; line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: left; padding: .25rem .45rem; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--dim); font-weight: 500; vertical-align: bottom; } td:last-child { min-width: 8rem; } code { font-size: .92em; }
.right { text-align: right; } data { white-space: nowrap; }
.scroll { overflow-x: auto; } .dim { color: var(--dim); } .bad { font-weight: 600; }
img { width: 100%; height: auto; display: block; margin: 1rem 0; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
@media print { body { font-size: 9pt; max-width: none; margin: 0; } th, td { padding: .15rem .3rem; } .scroll { overflow: visible; }
  h2 { break-after: avoid; } tr, img { break-inside: avoid; } .charts { grid-template-columns: 1fr 1fr; } }
)css";

constexpr std::string_view reading_help = R"html(<h2>How to read this</h2>
<p>Gaps are differences of the last validation loss between runs of the same seed; intervals are at 95 %, Student&#8217;s t of
their mean. <em>within</em>: two one-sided tests at 5 % show that the gap lies inside the tolerance. <em>worse</em>,
<em>better</em>: the interval does not hold 0, also after Holm&#8217;s correction for a family. <em>not resolved</em>: none of
these; more seeds may tell. One method in twenty without a real gap still looks worse or better: repeat what surprises you
on new seeds.</p>
)html";
constexpr std::string_view points_help =
    R"html(<p>An efficiency of 0.8 in tokens: the baseline has the method&#8217;s loss after 0.8 of its tokens, interpolated
between lengths and never extrapolated. effN and effD are the same of parameters and tokens under the law, where it holds. The
break-even speed-up is how many times as fast as the baseline&#8217;s a method&#8217;s steps must be before it pays.</p>
)html";

/// What is shown, around what is meant: the text that results.json has.
std::string html_number(const Value& value, const std::string& shown) {
  return fmt::format("<data value=\"{}\">{}</data>", json_line(value), shown);
}

/// A list of texts has a line for each.
std::string html_cell(const Value& cell) {
  if (cell.json->is_number() || (cell.json->is_array() && cell.json->front().is_number()))
    return html_number(cell, *cell.text);
  if (cell.json->is_null() && *cell.text == "-") return "";
  if (!cell.json->is_array()) return html_escaped(*cell.text);
  std::string lines;
  for (const Json& line : *cell.json)
    lines += (lines.empty() ? "" : "<br/>") + html_escaped(line.get<std::string>());
  return lines;
}

/// Without the columns in which nothing stands.
std::string html(const Table& table) {
  if (table.rows() == 0) return "";
  std::vector<std::string> lines(table.rows() + 1);
  for (std::size_t i = 0; i < table.columns().size(); ++i) {
    const auto& [key, heading, form, spare] = table.columns()[i];
    const char* const side = form[0] == '>' ? " class=\"right\"" : "";
    std::vector<std::string> cells;
    for (std::size_t k = 0; k < table.rows(); ++k) cells.push_back(html_cell(table.cell(k, i)));
    if (heading.empty() || std::ranges::count(cells, "") == std::ssize(cells)) continue;
    lines[0] += fmt::format("<th{}>{}</th>", side, html_escaped(heading));
    for (std::size_t k = 0; k < cells.size(); ++k)
      lines[k + 1] += fmt::format("<td{}>{}</td>", side, cells[k]);
  }
  return fmt::format("<div class=\"scroll\"><table>\n<tr>{}</tr>\n</table></div>\n",
                     fmt::join(lines, "</tr>\n<tr>"));
}
/// Nothing without a body. `intro`: what stands above it.
std::string section(const std::string& heading, const std::string& body, const std::string& intro = "") {
  return body.empty() ? "" : fmt::format("<h2>{}</h2>\n{}{}", heading, intro, body);
}

std::string methods(const Results& r) {
  const std::size_t point = largest_shown(r);
  const double gap = r.resolvable_gap.value_or(0);
  return (r.has_points() ? fmt::format("<p>At {}:</p>\n", html_escaped(r.points[point].name)) : "") +
         html(verdicts(r, point, point + 1, shown_stage(r), true)) +
         fmt::format("<p>Here {}.</p>\n", resolution(r, html_number(gap, fmt::format("{:.4f}", gap))));
}

std::string curves_of(const Results& r, const Curves& curves) {
  if (r.has_points()) return "";
  std::string out;
  for (const auto& svg : curves.pictures)
    out += fmt::format("<img alt=\"curves\" src=\"data:image/svg+xml;base64,{}\"/>\n", to_base64(svg));
  return out.empty() ? "<p class=\"dim\">No pictures.</p>\n" : out;
}

std::string list(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += fmt::format("<li>{}</li>\n", html_escaped(line));
  return out.empty() ? "" : "<ul>\n" + out + "</ul>\n";
}

std::string law(const Results& r, Curves* curves) {
  const Law& law = r.law;
  if (!law.fitted) return fmt::format("<p>None was fitted: {}.</p>\n", html_escaped(law.why));
  const auto digits = [](double x) { return html_number(x, fmt::format("{:.4g}", x)); };
  std::string off;
  for (const LawArm& arm : law.arms)
    if (law.holds && !law.holds_for(arm))
      off += fmt::format(" It is outside the interval of {} of {}'s gaps, so that {} has no effN and effD.",
                         arm.outside, html_escaped(r.arms[arm.arm].name), html_escaped(r.arms[arm.arm].name));
  return fmt::format(
             "<p>L(N, D) = (A / (effN N)<sup>alpha</sup> + B / (effD D)<sup>beta</sup>)<sup>gamma</sup> + E "
             "with A = {}, alpha = {}, B = {}, beta = {}, gamma = {}, E = {}. {} The baseline is off it "
             "by at most {:.2f} %; the limit is {:.2f} %. {}</p>\n",
             digits(law.A), digits(law.alpha), digits(law.B), digits(law.beta), digits(law.gamma),
             digits(law.E), law.holds ? "It holds here." + off : "<b>It does not hold here.</b>",
             100 * law.worst, 100 * law.limit,
             law.draws ? fmt::format("Intervals: {} draws over seeds.", law.draws)
                       : "A size with one seed has no intervals.") +
         law_picture(r, curves);
}

/// Of every point and both kinds of seeds, unless that is the first table once more.
std::string all_gaps(const Results& r) {
  std::string out;
  for (const Stage stage : {Stage::select, Stage::confirm})
    if (r.has_points() || stage != r.judged()) out += html(verdicts(r, 0, r.points.size(), stage, true));
  return out;
}

std::string tuning(const Results& r, Curves* curves) {
  std::vector<std::string> edges;
  for (const Tuned& t : r.tunes)
    if (t.best && t.edge)
      edges.push_back(
          fmt::format("{}: {:g} is the best, and the end of the list", r.arms[t.arm].name, t.value));
  return tuning_picture(r, curves) + list(edges);
}

std::string arms(const Results& r) {
  Table table("|arm; |family; |differs by");
  for (const Arm& arm : r.arms)
    if (!arm.differences.empty()) table.row(arm.name, arm.family, arm.differences);
  return html(table);
}

}  // namespace

std::string page(const Results& r, Curves* curves) {
  const std::string title = html_escaped((r.has_points() ? "referee " : "sweep ") + r.asked.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width\"/>\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      title, style);
  const auto has_pairs = [](const auto& one) { return one.gap.pairs > 0; };
  out += fmt::format(
      "<p>{} arms {}, on <code>{}</code>; base <code>{}</code>, baseline <code>{}</code>. Seeds {}; verdicts "
      "are of {}. Arms share initial weights, batches and random draws, seed by seed. The tolerance is {} "
      "nats: <i>within</i> says that the gap was shown to be smaller. {} gaps and {} sums of arms were "
      "looked at.</p>\n",
      r.arms.size(),
      r.has_points() ? fmt::format("at {} points (sizes x lengths: {} x {})", r.points.size(), r.sizes.size(),
                                   r.asked.lengths.size())
                     : fmt::format("with {} steps each", r.points[0].steps),
      html_escaped(r.data_file), html_escaped(r.asked.base), html_escaped(r.asked.baseline),
      fmt::join(r.asked.select, ", "),
      r.asked.confirm.empty() ? std::string("these")
                              : fmt::format("seeds {} alone", fmt::join(r.asked.confirm, ", ")),
      r.asked.tolerance, std::ranges::count_if(r.gaps, has_pairs),
      std::ranges::count_if(r.contrast_results, has_pairs));
  if (!r.complete)
    out += "<p class=\"bad\">Not all runs are finished: verdicts are only given where they are.</p>\n";
  out += methods(r) + curves_of(r, curves ? *curves : Curves{});
  if (r.has_points())
    out += section("Gaps", gap_pictures(r, curves)) +
           section("Loss", loss_pictures(r, curves, false) + loss_pictures(r, curves, true)) +
           section("The law", law(r, curves));
  out += section("Steps to a loss", html(steps_to_table(r)),
                 "<p>Means over the seeds that have the loss. Between two validations a run goes on a "
                 "straight line; seconds are of steps alone.</p>\n") +
         section("Sums of arms", html(contrasts_table(r))) +
         section("Do rounding errors predict the gap?", html(correlations_table(r))) +
         section("Learning rates", tuning(r, curves)) +
         section("Spikes of the training loss", list(spike_lines(r)),
                 "<p>A loss has blown up if more than half of what was learned is unlearned. Nothing is "
                 "resolved against a baseline whose loss did: a lower learning rate, or a longer warm-up, "
                 "may give one whose loss does not.</p>\n") +
         section("Changes of formats", list(switch_lines(r))) + section("What was not run", list(r.not_run)) +
         (r.has_points() ? "" : html(losses_by_seed(r))) + section("All gaps", all_gaps(r)) +
         section("What differs from the baseline", arms(r));
  if (r.floor)
    out += fmt::format(
        "<p>The data&#8217;s entropy is {:.4f} nats: no model can be below it, and one that sees a window of "
        "the text cannot reach it.</p>\n",
        *r.floor);
  out.append(reading_help).append(r.has_points() ? points_help : "");
  out += fmt::format("<p class=\"dim\">{}; data hash {}; commit {}. Steps on {}. {} tokens trained",
                     html_escaped(r.arithmetic), html_escaped(r.data_hash), html_escaped(r.commit),
                     html_escaped(r.times.device), with_prefix(double(r.tokens_trained)));
  if (r.has_points())
    out += fmt::format("; {} with each length by itself", with_prefix(double(r.tokens_apart)));
  return out + ".</p>\n</body>\n</html>\n";
}

}  // namespace mxtape::referee
