#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "program/plot/gnuplot.h"
#include "program/plot/heat_map.h"

namespace mxtape {
namespace {

/// Labels of every n-th of `count` places, at most `most` of them.
template <class Label>
std::string tics(const char* axis, std::size_t count, std::size_t most, const Label& label) {
  const std::size_t every = (count + most - 1) / most;
  std::string text;
  for (std::size_t i = 0; i < count; i += every)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", gnuplot::quoted(label(i)), i);
  return fmt::format("set {} ({})\n", axis, text);
}

}  // namespace

std::string heat_script(const HeatMap& map, const std::string& terminal, const std::filesystem::path& output,
                        const std::string& title) {
  const std::size_t columns = map.panels.size() > 1 ? 2 : 1,
                    rows = (map.panels.size() + columns - 1) / columns;
  const std::size_t height = std::clamp<std::size_t>(11 * map.layers.size(), 150, 600);
  double low = INFINITY, high = -INFINITY;
  std::string script;
  for (std::size_t i = 0; i < map.panels.size(); ++i) {
    script += fmt::format("$panel{} << EOD\n", i);
    const auto& values = map.panels[i].values;
    for (std::size_t layer = 0; layer < values.size(); ++layer)
      for (std::size_t step = 0; step < values[layer].size(); ++step) {
        const double value = values[layer][step];
        if (!std::isfinite(value)) continue;  // stays white
        script += fmt::format("{} {} {}\n", step, layer, value);
        low = std::min(low, value), high = std::max(high, value);
      }
    script += "EOD\n";
  }
  if (!(low <= high)) low = 0, high = 1;
  if (low == high) high = low + std::max(std::fabs(low), 1e-6);
  const std::string heading = title.empty() ? fmt::format("{}: {}{}", map.run, map.measure,
                                                          map.format.empty() ? "" : " in " + map.format)
                                            : title;
  script += fmt::format(
      "set terminal {} size 1200,{} enhanced background '#FFFFFF' font 'Helvetica,11'\n"
      "set output {}\n"
      "set multiplot layout {},{} title {} font ',15' noenhanced\n",
      terminal, rows * (height + 70) + 60, gnuplot::quoted(output.string()), rows, columns,
      gnuplot::quoted(heading));
  // Viridis (Smith & van der Walt 2015): even steps of lightness, and told apart by the colour-blind.
  script +=
      "set palette defined (0 '#440154', 1 '#46327E', 2 '#365C8D', 3 '#277F8E', 4 '#1FA187', 5 '#4AC16D', 6 "
      "'#A0DA39', 7 '#FDE725')\n"
      "set border 3 linecolor rgb '#555555'\nset tics nomirror out scale 0.4 textcolor rgb '#333333'\n"
      "set ytics font ',8' noenhanced\nset xlabel 'optimizer steps'\n";
  script += fmt::format("set cbrange [{}:{}]\nset xrange [-0.5:{}.5]\nset yrange [{}.5:-0.5]\n", low, high,
                        map.steps.size() - 1, map.layers.size() - 1);
  script += tics("xtics", map.steps.size(), 6, [&](std::size_t i) { return std::to_string(map.steps[i]); });
  script += tics("ytics", map.layers.size(), 60, [&](std::size_t i) { return map.layers[i]; });
  for (std::size_t i = 0; i < map.panels.size(); ++i) {
    const auto& values = map.panels[i].values;
    const bool empty = std::none_of(values.begin(), values.end(), [](const auto& layer) {
      return std::any_of(layer.begin(), layer.end(), [](double value) { return std::isfinite(value); });
    });
    script += fmt::format("set title {} noenhanced\nplot {} notitle\n", gnuplot::quoted(map.panels[i].slot),
                          empty ? std::string("NaN")
                                : fmt::format("$panel{} using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5):3 with "
                                              "boxxyerror fillstyle solid noborder linecolor palette",
                                              i));
  }
  return script + "unset multiplot\n";
}

}  // namespace mxtape
