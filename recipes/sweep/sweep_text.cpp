#include "recipes/sweep/sweep_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/files/atomic_file.h"
#include "core/text/nearest_name.h"
#include "core/text/program_name.h"
#include "recipes/knobs.h"
#include "recipes/sweep/grid.h"

namespace mxtape {
namespace {

constexpr std::int64_t most_seeds = 1000;

/// Keys that a sweep decides for its runs, and what to write instead.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> decided_keys{
    {{"name", "an arm's name is arm.name"},
     {"description", "a comment says as much"},
     {"seed", "the sweep's key 'seeds' lists them"},
     {"train.out", "--out names the folder"},
     {"compute.threads", "--jobs divides the cores among the runs"},
     {"optim.start", "it belongs to branches of a run"},
     {"schedule.start", "it belongs to branches of a run"}}};

std::string read_file(const std::string& path) {
  try {
    return read_whole_text(path);
  } catch (const Error& e) {
    fail(e.code() == ExitCode::data ? ExitCode::usage : e.code(), "{}; want a sweep's .toml file", e.what());
  }
}

}  // namespace

SweepText::SweepText(const std::string& path) : source{path}, table(parse_toml(read_file(path), source)) {
  const std::string_view seeds_key = table.contains("points") ? "select" : "seeds";
  const std::array<std::string_view, 15> known{"base",    "baseline", "tolerance", "set",       "arm",
                                               "grid",    seeds_key,  "points",    "size",      "families",
                                               "confirm", "best",     "tune",      "contrasts", "steps_to"};
  require_no_recipe();
  for (const auto& [key, node] : table)
    require(std::find(known.begin(), known.end(), key.str()) != known.end(), ExitCode::usage,
            "{}: unknown key or section '{}' of a sweep{}", source.place(key.source()), key.str(),
            suggestion(key.str(), known));
  const toml::node& named = required("base", "the name of a shipped recipe, or a file", table);
  base = {read_text("base", "the name of a shipped recipe, or a file"), source.place(named.source())};
  baseline = read_text("baseline", "the name of the arm that the others are compared with");
  seeds = read_seeds(seeds_key, table);
  tolerance = read_tolerance();
  for (const auto& [key, node] : table) {
    if (key == "set") shared = read_settings("set", key.source(), node);
    if (key == "arm") arms = read_arms("arm", node);
  }
  if (const toml::node* grid = table.get("grid")) read_grid(*grid);
  require(arms.size() >= 2, ExitCode::usage,
          "{}: {} arm{}; want at least two, as [[arm]] or as combinations of [grid]", path, arms.size(),
          arms.size() == 1 ? "" : "s");
}

/// Of a file that asks nothing, and has keys of a recipe.
void SweepText::require_no_recipe() const {
  for (const std::string_view key : {"base", "baseline", "arm", "grid"})
    if (table.contains(key)) return;
  Recipe scratch;
  bool recipe = table.contains("extends");
  for (const Knob& knob : knobs(scratch))
    recipe = recipe || table.contains(knob.section().empty() ? knob.key() : knob.section());
  require(!recipe, ExitCode::usage,
          "{}: this is a recipe; `mxtape train {}` takes it. A sweep is a file with base = \"{}\", baseline, "
          "seeds, tolerance and arms (docs/sweeps.md)",
          source.label, shell_quoted(source.label), std::filesystem::path(source.label).filename().string());
}

Recipe SweepText::recipe_of(const Fragment& named, std::string_view key, Recipe below) const {
  const auto folder = std::filesystem::path(source.label).parent_path();
  read_fragment(below, named.name, folder, fmt::format("{}: {}: ", named.place, key));
  return below;
}

void SweepText::want(bool fine, std::string_view key, const toml::node& node, std::string_view wanted) const {
  require(fine, ExitCode::usage, "{}: {} = {}; want {}", source.place(node.source()), key, found_text(node),
          wanted);
}

const toml::table& SweepText::section(std::string_view name, const toml::node& node) const {
  want(node.is_table(), name, node, fmt::format("a section: [{}]", name));
  return *node.as_table();
}

const toml::node& SweepText::required(std::string_view key, std::string_view wanted,
                                      const toml::table& from) const {
  const toml::node* node = from.get(key);
  require(node != nullptr, ExitCode::usage, "{}: no '{}'; want {}", source.label, key, wanted);
  return *node;
}

std::string SweepText::read_text(std::string_view key, std::string_view wanted) const {
  const toml::node& node = required(key, wanted, table);
  want(node.is_string(), key, node, wanted);
  return *node.value<std::string>();
}

std::vector<std::uint64_t> SweepText::read_seeds(std::string_view key, const toml::table& from) const {
  const std::string wanted =
      fmt::format("how many, 1 to {}, or a list of different integers >= 0", most_seeds);
  const toml::node& node = required(key, wanted, from);
  const auto count = node.value_exact<std::int64_t>();
  const toml::array* items = node.as_array();
  std::vector<std::uint64_t> seeds;
  for (std::int64_t seed = 1; count && seed <= std::min(*count, most_seeds + 1); ++seed)
    seeds.push_back(std::uint64_t(seed));
  bool fine = count || items;
  for (std::size_t i = 0; items && i < items->size(); ++i) {
    const auto seed = (*items)[i].value_exact<std::int64_t>();
    fine = fine && seed && *seed >= 0 && std::ranges::find(seeds, std::uint64_t(*seed)) == seeds.end();
    seeds.push_back(std::uint64_t(seed.value_or(0)));
  }
  want(fine && !seeds.empty() && std::int64_t(seeds.size()) <= most_seeds, key, node, wanted);
  return seeds;
}

double SweepText::read_tolerance() const {
  constexpr std::string_view wanted =
      "the gap in nats per token that counts as none, a number > 0: tolerance = 0.02 is 2 % of perplexity";
  const toml::node& node = required("tolerance", wanted, table);
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  want(value && std::isfinite(*value) && *value > 0, "tolerance", node, wanted);
  return *value;
}

std::vector<Fragment> SweepText::read_fragments(const toml::source_region& at, const toml::node& node) const {
  const toml::array* items = node.as_array();
  std::vector<Fragment> fragments;
  if (node.is_string()) fragments.push_back({*node.value<std::string>(), source.place(at)});
  if (items)
    for (const auto& item : *items)
      if (item.is_string()) fragments.push_back({*item.value<std::string>(), source.place(item.source())});
  require(!fragments.empty() && (!items || items->size() == fragments.size()), ExitCode::usage,
          "{}: recipe = {}; want the name of a file or of a shipped recipe, or a list of them",
          source.place(at), found_text(node));
  return fragments;
}

void SweepText::require_sweepable(const std::string& key, const toml::source_region& at) const {
  for (const auto& [decided, instead] : decided_keys)
    require(key != decided, ExitCode::usage, "{}: {} is the sweep's to set: {}", source.place(at), key,
            instead);
}

std::vector<Setting> SweepText::read_settings(std::string_view name, const toml::source_region& at,
                                              const toml::node& node) const {
  const toml::table* keys = node.as_table();
  require(keys != nullptr, ExitCode::usage, "{}: {} = {}; want a section of recipe keys: [{}]",
          source.place(at), name, found_text(node), name);
  if (const toml::node* extended = keys->get("extends"))
    fail(ExitCode::usage, "{}: {}.extends; want `recipe = ...` in an [[arm]], or another `base`",
         source.place(extended->source()), name);
  std::vector<Setting> settings;
  for (const auto& [key, value] : *keys) {
    const std::string top(key.str());
    if (!value.is_table())
      settings.push_back({top, key.source(), &value});
    else
      for (const auto& [inner, of_inner] : *value.as_table())
        settings.push_back({fmt::format("{}.{}", top, inner.str()), inner.source(), &of_inner});
  }
  for (const Setting& setting : settings) require_sweepable(setting.key, setting.at);
  Recipe scratch;
  TableReader(scratch, source).read_file(*keys);  // refuses what is no recipe's key or value
  return settings;
}

std::vector<ArmText> SweepText::read_arms(std::string_view name, const toml::node& node) const {
  want(node.is_array_of_tables(), name, node, fmt::format("tables: [[{}]]", name));
  constexpr std::array<std::string_view, 3> known{"name", "recipe", "set"};
  std::vector<ArmText> read;
  for (const auto& item : *node.as_array()) {
    ArmText& arm = read.emplace_back(ArmText{"", source.line(item.source()), {}, {}});
    for (const auto& [key, value] : *item.as_table()) {
      Recipe scratch;
      if (key == "name") {
        TableReader(scratch, source).read_key("name", key.source(), value);
        arm.name = scratch.name;
      } else if (key == "recipe") {
        arm.fragments = read_fragments(key.source(), value);
      } else if (key == "set") {
        arm.settings = read_settings(fmt::format("{}.set", name), key.source(), value);
      } else {
        fail(ExitCode::usage, "{}: unknown key '{}.{}'{}", source.place(key.source()), name, key.str(),
             suggestion(key.str(), known));
      }
    }
    require(!arm.name.empty(), ExitCode::usage, "{}: this {} has no 'name'", arm.where, name);
  }
  return read;
}

void SweepText::read_grid(const toml::node& node) {
  const toml::source_region& at = node.source();
  const std::vector<GridAxis> axes = read_grid_axes(source, at, section("grid", node));
  for (const GridAxis& axis : axes) {
    if (axis.key == "recipe") continue;
    require_sweepable(axis.key, axis.at);
    Recipe scratch;
    for (const toml::node* value : axis.values)
      TableReader(scratch, source).read_key(axis.key, value->source(), *value);
  }
  for (const GridPoint& point : grid_points(axes)) {
    ArmText arm{.name = "", .where = source.line(at), .fragments = {}, .settings = {}};
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const toml::node& value = *axes[i].values[point[i]];
      if (axes[i].key == "recipe")
        arm.fragments = read_fragments(value.source(), value);
      else
        arm.settings.push_back({axes[i].key, value.source(), &value});
    }
    Recipe scratch;
    const toml::value<std::string> name(name_of(axes, point));
    TableReader(scratch, source).read_key("name", at, name);
    arm.name = scratch.name;
    arms.push_back(std::move(arm));
  }
}

}  // namespace mxtape
