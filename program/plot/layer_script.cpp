#include <fmt/format.h>

#include <algorithm>

#include "program/models/layer_costs.h"
#include "program/plot/gnuplot.h"

namespace mxtape {

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
