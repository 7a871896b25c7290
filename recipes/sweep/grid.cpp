#include "recipes/sweep/grid.h"

#include <algorithm>
#include <utility>

namespace mxtape {
namespace {

constexpr std::size_t most_arms = 256;  // in a table and a report that people read

void collect(std::vector<GridAxis>& axes, const Source& source, const std::string& prefix,
             const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (node.is_table()) {
      collect(axes, source, name + ".", *node.as_table());
      continue;
    }
    const toml::array* values = node.as_array();
    require(values && !values->empty(), ExitCode::usage, "{}: grid: {} = {}; want a list of values",
            source.place(key.source()), name, found_text(node));
    require(name != "precision.rules" && name != "precision.phases", ExitCode::usage,
            "{}: grid: {} has no single values; want an [[arm]] with [[arm.set.{}]] for each",
            source.place(key.source()), name, name);
    GridAxis axis{name, key.source(), {}};
    for (const auto& value : *values) axis.values.push_back(&value);
    axes.push_back(std::move(axis));
  }
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string value_text(const toml::node& value) {
  std::string text = found_text(value);
  if (value.is_string()) text = *value.value<std::string>();
  if (value.is_floating_point()) text = fmt::format("{}", *value.value<double>());  // 0.95, not 0.949999999
  std::replace(text.begin(), text.end(), ' ', '_');
  std::replace(text.begin(), text.end(), '/', '-');
  return text;
}

}  // namespace

std::vector<GridAxis> read_grid_axes(const Source& source, const toml::source_region& at,
                                     const toml::table& grid) {
  std::vector<GridAxis> axes;
  collect(axes, source, "", grid);
  require(!axes.empty(), ExitCode::usage, "{}: [grid] is empty; want section.key = [value, value]",
          source.place(at));
  // toml++ keeps tables by key; people think of them as they wrote them.
  std::ranges::stable_sort(axes, {},
                           [](const GridAxis& a) { return std::pair(a.at.begin.line, a.at.begin.column); });
  std::size_t points = 1;
  for (const GridAxis& axis : axes) {
    points *= axis.values.size();
    require(points <= most_arms, ExitCode::usage,
            "{}: [grid] has more than {} combinations; want fewer values", source.place(at), most_arms);
  }
  return axes;
}

std::vector<GridPoint> grid_points(const std::vector<GridAxis>& axes) {
  std::vector<GridPoint> points{{}};
  for (const GridAxis& axis : axes)
    for (const GridPoint& shorter : std::exchange(points, {}))
      for (std::size_t i = 0; i < axis.values.size(); ++i) points.emplace_back(shorter).push_back(i);
  return points;
}

std::string name_of(const std::vector<GridAxis>& axes, const GridPoint& point) {
  std::string name;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string part = last_part(axes[i].key);
    const bool shared = std::ranges::count(axes, part, [](auto& axis) { return last_part(axis.key); }) > 1;
    name += fmt::format("{}{}={}", i ? "," : "", shared ? axes[i].key : part,
                        value_text(*axes[i].values[point[i]]));
  }
  return name;
}

}  // namespace mxtape
