#include "recipes/referee/referee_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "core/files/atomic_file.h"
#include "core/text/nearest_name.h"
#include "recipes/sweep/grid.h"
#include "recipes/sweep/sweep_text.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 7> own_sections{"points", "size", "families", "confirm",
                                                       "best",   "tune", "contrasts"};

/// A table's numbers, texts and lists, each refused with its place, what was found and what is wanted.
struct Section {
  const Source& source;
  const toml::table& table;
  std::string name;

  [[noreturn]] void refuse(std::string_view key, const toml::node& node, std::string_view wanted) const {
    fail(ExitCode::usage, "{}: {}{} = {}; want {}", source.place(node.source()),
         name.empty() ? "" : name + ".", key, found_text(node), wanted);
  }
  void require_known(std::span<const std::string_view> known) const {
    for (const auto& [key, node] : table)
      require(std::ranges::find(known, key.str()) != known.end(), ExitCode::usage,
              "{}: unknown key '{}.{}'{}", source.place(key.source()), name, key.str(),
              suggestion(key.str(), known));
  }
  double number(std::string_view key, double if_none, std::string_view wanted, auto is_fine) const {
    const toml::node* node = table.get(key);
    if (!node) return if_none;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || !is_fine(*value)) refuse(key, *node, wanted);
    return *value;
  }
  std::vector<std::string> texts(std::string_view key, const toml::node& node,
                                 std::string_view wanted) const {
    std::vector<std::string> all;
    if (const toml::array* items = node.as_array())
      for (const auto& item : *items)
        if (item.is_string()) all.push_back(*item.value<std::string>());
    if (all.empty() || all.size() != node.as_array()->size()) refuse(key, node, wanted);
    return all;
  }
};

const toml::table& table_of(const Source& source, std::string_view key, const toml::node& node) {
  require(node.is_table(), ExitCode::usage, "{}: {} = {}; want a section: [{}]", source.place(node.source()),
          key, found_text(node), key);
  return *node.as_table();
}

}  // namespace

/// What is kept of the file.
struct RefereeFile::Sections {
  explicit Sections(const std::string& path) : text(path, "select", own_sections) {}
  SweepText text;
  std::vector<std::vector<Setting>> sizes;
  toml::table tune;
  std::optional<GridAxis> tuned;
};

bool RefereeFile::is_one(const std::string& path) {
  try {
    return parse_toml(read_whole_text(path), Source{path}).contains("points");
  } catch (const Error&) {
    return false;
  }
}

RefereeFile::RefereeFile(const std::string& path) : sections_(std::make_shared<Sections>(path)) {
  const SweepText& text = sections_->text;
  file = path, name = std::filesystem::path(path).stem().string();
  base = text.base.name, baseline = text.baseline, tolerance = text.tolerance, select = text.seeds;
  for (const ArmText& arm : text.arms) arms.push_back(arm.name);
  read_points(), read_sizes(), read_families(), read_tune();
  const Section top{text.source, text.table, ""};
  if (text.table.contains("confirm")) confirm = text.read_seeds("confirm", text.table);
  best = std::int64_t(top.number("best", 0, "how many arms of each family are confirmed, 1 or more",
                                 [](double x) { return x >= 1 && x == std::floor(x); }));
  require(best == 0 || (!confirm.empty() && !families.empty()), ExitCode::usage,
          "{}: best = {} chooses arms of [families] for the seeds of `confirm`; want both", path, best);
  for (const auto* one : {&select, &confirm})
    for (const auto* other : {&confirm, &tune})
      for (const std::uint64_t seed : *one)
        require(one == other || std::ranges::find(*other, seed) == other->end(), ExitCode::usage,
                "{}: seed {} is in two of select, confirm and tune.seeds; want others, or what was chosen on "
                "a seed is "
                "judged on it",
                path, seed);
  if (const toml::node* node = text.table.get("contrasts"))
    for (const auto& one : top.texts("contrasts", *node, "a list of sums of arms: [\"a - b - c + d\"]"))
      contrasts.push_back(read_contrast(one, arms, text.source.place(node->source())));
}

void RefereeFile::read_points() {
  const SweepText& text = sections_->text;
  const Section points{
      text.source,
      table_of(text.source, "points", text.required("points", "a section: [points]", text.table)), "points"};
  points.require_known(
      std::array<std::string_view, 3>{"tokens_per_parameter", "decay", "learning_rate_power"});
  constexpr std::string_view wanted = "a list of ascending numbers > 0: how long each size is trained";
  const toml::node& node = text.required("tokens_per_parameter", wanted, points.table);
  if (const toml::array* items = node.as_array())
    for (const auto& item : *items)
      if (item.is_number()) lengths.push_back(*item.value<double>());
  if (lengths.empty() || lengths.size() != node.as_array()->size() || lengths.front() <= 0 ||
      std::ranges::adjacent_find(lengths, std::greater_equal()) != lengths.end() ||
      !std::isfinite(lengths.back()))
    points.refuse("tokens_per_parameter", node, wanted);
  decay = points.number("decay", 0.2, "the share of each length in which the learning rate falls, in (0, 1)",
                        [](double x) { return x > 0 && x < 1; });
  learning_rate_power =
      points.number("learning_rate_power", 0, "a number: the learning rate goes as parameters to this power",
                    [](double) { return true; });
}

void RefereeFile::read_sizes() {
  const SweepText& text = sections_->text;
  const toml::node& node =
      text.required("size", "[[size]], at least one: name, and set.model.width = ...", text.table);
  const toml::array* items = node.as_array();
  require(items && std::ranges::all_of(*items, [](auto& item) { return item.is_table(); }), ExitCode::usage,
          "{}: size = {}; want tables: [[size]]", text.source.place(node.source()), found_text(node));
  for (const auto& item : *items) {
    const Section size{text.source, *item.as_table(), "size"};
    size.require_known(std::array<std::string_view, 2>{"name", "set"});
    Recipe scratch;
    const toml::node& named = text.required("name", "a name for each [[size]]", size.table);
    TableReader(scratch, text.source).read_key("name", named.source(), named);
    require(std::ranges::find(sizes, scratch.name) == sizes.end(), ExitCode::usage, "{}: a second size '{}'",
            text.source.place(named.source()), scratch.name);
    sizes.push_back(scratch.name);
    const toml::node* set = size.table.get("set");
    sections_->sizes.push_back(set ? text.read_settings("size.set", set->source(), *set)
                                   : std::vector<Setting>{});
    const std::size_t last = sizes.size() - 1;
    require(last == 0 || parameters(last - 1) < parameters(last), ExitCode::usage,
            "{}: size '{}' has {} parameters, the one before it {}; want them to grow",
            text.source.place(item.source()), sizes.back(), parameters(last), parameters(last - 1));
  }
}

void RefereeFile::read_families() {
  const SweepText& text = sections_->text;
  const toml::node* node = text.table.get("families");
  if (!node) return;
  const Section section{text.source, table_of(text.source, "families", *node), "families"};
  std::vector<std::string> free = arms;
  std::erase(free, baseline);
  for (const auto& [key, value] : section.table) {
    Family family{std::string(key.str()), {}};
    for (const auto& arm : section.texts(key.str(), value, "a list of arms")) {
      const std::vector<std::string_view> known(free.begin(), free.end());
      require(std::erase(free, arm) == 1, ExitCode::usage,
              "{}: families.{}: '{}' is the baseline, in another family, or no arm{}",
              text.source.place(value.source()), key.str(), arm, suggestion(arm, known));
      family.arms.push_back(std::size_t(std::ranges::find(arms, arm) - arms.begin()));
    }
    families.push_back(std::move(family));
  }
}

void RefereeFile::read_tune() {
  const SweepText& text = sections_->text;
  const toml::node* node = text.table.get("tune");
  if (!node) return;
  sections_->tune = table_of(text.source, "tune", *node);
  tune = text.read_seeds("seeds", sections_->tune);
  sections_->tune.erase("seeds");
  auto axes = read_grid_axes(text.source, node->source(), sections_->tune);
  Recipe scratch;
  const Knob* knob = axes.size() == 1 ? TableReader(scratch, text.source).find(axes.front().key) : nullptr;
  require(knob && std::holds_alternative<float*>(knob->field), ExitCode::usage,
          "{}: [tune] has {}; want seeds, and one key with a list of numbers, such as optim.learning_rate",
          text.source.place(node->source()),
          axes.size() == 1 ? axes.front().key : fmt::format("{} keys", axes.size()));
  sections_->tuned = axes.front(), tuned_key = axes.front().key;
  for (std::size_t i = 0; i < axes.front().values.size(); ++i) {
    set_tuned(scratch, i);
    tuned_values.push_back(*axes.front().values[i]->value<double>());
  }
}

Recipe RefereeFile::recipe_of_size(std::size_t size) const {
  const SweepText& text = sections_->text;
  Recipe recipe;
  read_fragment(recipe, base, std::filesystem::path(file).parent_path(), text.base.place + ": base: ");
  for (const auto* settings :
       std::initializer_list<const std::vector<Setting>*>{&text.shared, &sections_->sizes[size]})
    for (const Setting& setting : *settings)
      TableReader(recipe, text.source).read_key(setting.key, setting.at, *setting.value);
  return recipe;
}

std::int64_t RefereeFile::parameters(std::size_t size) const {
  ModelConfig model = recipe_of_size(size).model;
  const std::int64_t all = parameter_count(model), layers = model.layers++;
  return layers * (parameter_count(model) - all);
}

std::int64_t RefereeFile::tokens_per_step(std::size_t size) const {
  const Recipe recipe = recipe_of_size(size);
  return recipe.train.batch_size * recipe.train.passes() * recipe.model.context;
}

std::int64_t RefereeFile::steps(std::size_t size, std::size_t length) const {
  return std::max<std::int64_t>(
      2, std::llround(lengths[length] * double(parameters(size)) / double(tokens_per_step(size))));
}

Sweep RefereeFile::sweep(std::size_t size, std::size_t length) const {
  SweepText text = sections_->text;  // whose settings stay those of the one that is kept
  for (const Setting& setting : sections_->sizes[size]) {
    std::erase_if(text.shared, [&](const Setting& shared) { return shared.key == setting.key; });
    text.shared.push_back(setting);
  }
  const toml::table made{
      {"train.steps", steps(size, length)}, {"schedule.kind", "wsd"}, {"schedule.decay_fraction", decay}};
  for (ArmText& arm : text.arms)
    for (const auto& [key, value] : made)
      arm.settings.push_back({std::string(key.str()), sections_->text.table.get("points")->source(), &value});
  Sweep sweep = sweep_of(text);
  for (const SweepArm& arm : sweep.arms) {
    const TrainConfig& train = arm.recipe.train;
    require(arm.recipe.model.layers > 0 && train.init.empty(), ExitCode::usage,
            "{}: arm '{}': train.init = \"{}\"; sizes differ, so want new weights", arm.where, arm.name,
            train.init);
    require(
        train.eval_windows != auto_windows, ExitCode::usage,
        "{}: train.eval_windows = auto depends on the length; want a number in [set], so that all points are "
        "validated on the same windows",
        file);
    require(
        train.batch_size * train.passes() * arm.recipe.model.context == tokens_per_step(size),
        ExitCode::usage,
        "{}: arm '{}' has other tokens in a step than size '{}'; want model and batch in [set] or [[size]]",
        arm.where, arm.name, sizes[size]);
  }
  return sweep;
}

void RefereeFile::set_tuned(Recipe& recipe, std::size_t value) const {
  const GridAxis& axis = *sections_->tuned;
  TableReader(recipe, sections_->text.source).read_key(axis.key, axis.at, *axis.values[value]);
}

}  // namespace mxtape
