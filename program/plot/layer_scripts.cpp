// Pictures of layers: maps of layers by steps, and bars of what each layer costs.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "program/models/layer_costs.h"
#include "program/plot/gnuplot.h"
#include "program/plot/heat_map.h"

namespace mxtape {
namespace {

/// Viridis (Smith & van der Walt 2015): even steps of lightness, and told apart by the colour-blind.
constexpr std::string_view viridis =
    "0 '#440154', 1 '#46327E', 2 '#365C8D', 3 '#277F8E', 4 '#1FA187', 5 '#4AC16D', 6 '#A0DA39', 7 '#FDE725'";
/// Moreland 2009, "Diverging color maps for scientific visualization": blue and red, grey between them, which
/// is not the white of what was not measured.
constexpr std::string_view diverging = "0 '#3B4CC0', 1 '#7B9FF9', 2 '#C9C9C9', 3 '#EE8468', 4 '#B40426'";

/// Places in pixels.
constexpr std::size_t width = 1200, row_height = 14, head = 74, gap = 74, foot = 30, right = 110,
                      between = 30;

/// Labels of every n-th of `count` places, at most `most` of them.
template <class Label>
std::string tics(const char* axis, std::size_t count, std::size_t most, const Label& label) {
  const std::size_t every = (count + most - 1) / most;
  std::string text;
  for (std::size_t i = 0; i < count; i += every)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", gnuplot::quoted(label(i)), i);
  return fmt::format("set {} ({})\n", axis, text);
}

/// The data blocks $panel0, $panel1 ..., and the least and the largest value. What has none stays white.
std::array<double, 2> put_values(std::string& script, const HeatMap& map, const TelemetryMeasure& measure) {
  double low = INFINITY, high = -INFINITY;
  for (std::size_t i = 0; i < map.panels.size(); ++i) {
    script += fmt::format("$panel{} << EOD\n", i);
    for (std::size_t layer = 0; layer < map.layers.size(); ++layer)
      for (std::size_t step = 0; step < map.steps.size(); ++step) {
        const double value = map.panels[i].shown(layer, step) - measure.zero;
        if (!std::isfinite(value)) continue;
        script += fmt::format("{} {} {}\n", step, layer, value);
        low = std::min(low, value), high = std::max(high, value);
      }
    script += "EOD\n";
  }
  if (!(low <= high)) low = 0, high = 1;
  if (measure.is_signed) high = std::max(std::fabs(low), std::fabs(high)), low = -high;
  if (low == high) high = low + std::max(std::fabs(low), 1e-6);
  return {low, high};
}

}  // namespace

std::string heat_script(const HeatMap& map, const std::string& terminal, const std::filesystem::path& output,
                        const std::string& title) {
  const auto measures = telemetry_measures();
  const TelemetryMeasure& measure = *std::ranges::find(measures, map.measure, &TelemetryMeasure::name);
  std::string script;
  const auto [low, high] = put_values(script, map, measure);
  const std::string heading =
      title.empty() ? fmt::format("{}: {} [{}]", map.run, measure.title, measure.unit) : title;
  const std::string formats = map.formats.size() > 3 ? fmt::format("in {} formats", map.formats.size())
                              : map.formats.empty()  ? ""
                                                     : fmt::format("in {}", fmt::join(map.formats, ", "));
  std::size_t name = 0;
  for (const auto& layer : map.layers) name = std::max(name, layer.size());
  const std::size_t columns = map.panels.size() > 1 ? 2 : 1,
                    rows = (map.panels.size() + columns - 1) / columns;
  const std::size_t labels = std::min<std::size_t>(map.layers.size(), 60);  // each a row's height apart
  const double panel_height = double(std::max<std::size_t>(labels, 4) * row_height);
  const double height = double(head + foot) + double(rows) * (panel_height + double(gap));
  const double left = 7.0 * double(name) + 20;
  const double panel_width =
      (double(width - right) - left - double(between * (columns - 1))) / double(columns);
  script += fmt::format(
      "set terminal {} size {},{:.0f} enhanced background '#FFFFFF' font 'Helvetica,11'\nset output {}\nset "
      "multiplot\nset label 1 {} at screen 0.5,{:.4f} center font ',15' noenhanced\nset label 2 {} at screen "
      "0.5,{:.4f} center noenhanced textcolor rgb '#555555'\nset label 3 'optimizer steps' at screen "
      "0.5,{:.4f} center\n",
      terminal, width, height, gnuplot::quoted(output.string()), gnuplot::quoted(heading), 1 - 24 / height,
      gnuplot::quoted(formats), 1 - 46 / height, 14 / height);
  script += fmt::format(
      "set palette defined ({})\nset border 3 linecolor rgb '#555555'\nset tics nomirror out scale 0.4 "
      "textcolor rgb '#333333'\nset cbrange [{}:{}]\nset xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\nset "
      "colorbox vertical user origin screen {:.4f},{:.4f} size screen 0.016,{:.4f}\n",
      measure.is_signed ? diverging : viridis, low, high, map.steps.size() - 1, map.layers.size() - 1,
      1 - double(right - 24) / width, double(foot + 30) / height, panel_height / height);
  script += tics("xtics", map.steps.size(), 6, [&](std::size_t i) { return std::to_string(map.steps[i]); });
  for (std::size_t i = 0; i < map.panels.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    const double x = left + double(column) * (panel_width + double(between)),
                 top = head + 26 + double(row) * (panel_height + double(gap));
    script += fmt::format(
        "set lmargin at screen {:.4f}\nset rmargin at screen {:.4f}\nset tmargin at screen {:.4f}\nset "
        "bmargin at screen {:.4f}\n",
        x / width, (x + panel_width) / width, 1 - top / height, 1 - (top + panel_height) / height);
    if (column == 0)
      script += "set ytics nomirror out scale 0.4 textcolor rgb '#333333' font ',9' noenhanced\n" +
                tics("ytics", map.layers.size(), labels, [&](std::size_t l) { return map.layers[l]; });
    else
      script += "unset ytics\n";
    const bool empty = script.find(fmt::format("$panel{} << EOD\nEOD\n", i)) != std::string::npos;
    script += fmt::format("set title {} noenhanced\nplot {} notitle\n", gnuplot::quoted(map.panels[i].slot),
                          empty ? std::string("NaN")
                                : fmt::format("$panel{} using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5):3 with "
                                              "boxxyerror fillstyle solid noborder linecolor palette",
                                              i));
    script += "unset label\nunset colorbox\n";
  }
  return script + "unset multiplot\n";
}

std::string layer_script(const LayerCosts& costs, const std::string& terminal,
                         const std::filesystem::path& output, const std::string& title) {
  const std::size_t bars = costs.precisions.size();
  const double width = 0.8 / double(bars);  // of a bar; layers lie 1 apart
  std::vector<std::string> curves;
  std::string script, labels;
  for (std::size_t place = 0; place < costs.layers.size(); ++place)
    labels += fmt::format("{}{} {}", place ? ", " : "", gnuplot::quoted(costs.layers[place]), place);
  for (std::size_t i = 0; i < bars; ++i) {
    script += fmt::format("$bars{} << EOD\n", i);
    for (std::size_t place = 0; place < costs.layers.size(); ++place)
      if (const auto loss = costs.precisions[i].alone.find(costs.layers[place]);
          loss != costs.precisions[i].alone.end())
        script += fmt::format("{} {} {}\n", double(place) - 0.4 + width * (double(i) + 0.5),
                              loss->second.above_f32, loss->second.error);
    script += "EOD\n";
    curves.push_back(
        fmt::format("$bars{0} using ($2/2):1:(0):2:($1-{1}):($1+{1}) with boxxyerror fillstyle solid "
                    "noborder linecolor rgb '#{2}' title {3}, $bars{0} using 2:1:3 with xerrorbars pointsize "
                    "0 linecolor rgb '#333333' notitle",
                    i, width / 2, gnuplot::colour_of(i), gnuplot::quoted(costs.precisions[i].precision)));
  }
  script += fmt::format(
      "set terminal {} size 1000,{} enhanced background '#FFFFFF' font 'Helvetica,12'\nset output {}\nset "
      "title {} font ',16' noenhanced\nset border 3 linecolor rgb '#555555'\nset tics nomirror out scale 0.4 "
      "textcolor rgb '#333333'\nset grid xtics linecolor rgb '#E6E6E6' linetype 1 linewidth 1\nset ytics "
      "({}) noenhanced\nset yrange [{}.5:-0.5]\nset key above right Left reverse noenhanced\nset xlabel "
      "'loss above f32 when this layer alone is rounded [nats per token]; whiskers: standard error'\n",
      terminal, 150 + costs.layers.size() * std::max<std::size_t>(20, 9 * bars),
      gnuplot::quoted(output.string()), gnuplot::quoted(title), labels, costs.layers.size() - 1);
  return script + gnuplot::plot_command(curves);
}

}  // namespace mxtape
