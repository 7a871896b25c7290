#include "recipes/sweep/referee_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "core/text/nearest_name.h"
#include "recipes/sweep/grid.h"
#include "recipes/sweep/sweep_text.h"

namespace mxtape {

/// What is kept of the file.
struct RefereeFile::Sections {
  SweepText text;
  std::vector<ArmText> sizes{};
  std::optional<GridAxis> tuned{};
  std::optional<Sweep> one_point{};
};

namespace {

double number_or_nan(const toml::node& node) { return node.is_number() ? *node.value<double>() : NAN; }

std::int64_t parameters_of_blocks(ModelConfig model) {
  const std::int64_t all = parameter_count(model), layers = model.layers++;
  return layers * (parameter_count(model) - all);
}

}  // namespace

RefereeFile::RefereeFile(const std::string& path, const InitialModel& model_of)
    : sections_(std::make_shared<Sections>(Sections{SweepText(path)})) {
  const SweepText& text = sections_->text;
  const Source& source = text.source;
  file = path, name = std::filesystem::path(path).stem().string();
  base = text.base.name, baseline = text.baseline, tolerance = text.tolerance, select = text.seeds;
  for (const ArmText& arm : text.arms) arms.push_back(arm.name);
  if (text.table.contains("points"))
    read_points(), read_sizes();
  else
    read_one_point(model_of);
  read_families(), read_tune();
  if (const toml::node* node = text.table.get("steps_to")) {
    steps_to = node->is_number() ? std::vector{*node->value<double>()} : list_of<double>(*node);
    text.want(!steps_to.empty() && std::set(steps_to.begin(), steps_to.end()).size() == steps_to.size() &&
                  std::ranges::all_of(steps_to, [](double x) { return x > 0 && std::isfinite(x); }),
              "steps_to", *node, "a validation loss in nats per token, > 0, or a list of different ones");
  }
  if (text.table.contains("confirm")) confirm = text.read_seeds("confirm", text.table);
  if (const toml::node* node = text.table.get("best")) {
    best = node->value_exact<std::int64_t>().value_or(0);
    text.want(best >= 1, "best", *node, "how many arms of each family are confirmed, 1 or more");
  }
  require(best == 0 || (!confirm.empty() && !families.empty()), ExitCode::usage,
          "{}: best = {} chooses arms of [families] for the seeds of `confirm`; want both", path, best);
  if (const toml::node* node = text.table.get("contrasts")) {
    for (const auto& one : list_of<std::string>(*node))
      contrasts.push_back(contrast_of(one, source.place(node->source())));
    text.want(!contrasts.empty(), "contrasts", *node, "a list of sums of arms: [\"a - b - c + d\"]");
  }
  std::set<std::uint64_t> seeds(select.begin(), select.end());
  for (const auto* more : {&confirm, &tune})
    for (const std::uint64_t seed : *more)
      require(seeds.insert(seed).second, ExitCode::usage,
              "{}: seed {} is in two of select, confirm and tune.seeds; want others, or what was chosen on "
              "a seed is judged on it",
              path, seed);
}

void RefereeFile::read_one_point(const InitialModel& model_of) {
  const toml::node* size = sections_->text.table.get("size");
  require(!size, ExitCode::usage, "{}: [[size]] without [points]; want both, or model keys in [set]",
          size ? sections_->text.source.place(size->source()) : "");
  sections_->one_point = sweep_of(sections_->text, model_of);
  const Recipe& recipe = sections_->one_point->baseline_arm().recipe;
  const std::int64_t parameters = parameters_of_blocks(recipe.model), steps = recipe.train.steps,
                     tokens = steps * recipe.tokens_per_step();
  sizes.push_back({"", parameters, recipe.tokens_per_step()});
  points.push_back({"", 0, parameters, double(tokens) / double(std::max<std::int64_t>(parameters, 1)), tokens,
                    steps, steps - first_decaying_step(recipe.schedule, steps)});
}

void RefereeFile::read_points() {
  const SweepText& text = sections_->text;
  const toml::table& keys =
      text.section("points", text.required("points", "a section: [points]", text.table));
  constexpr std::array<std::string_view, 3> known{"tokens_per_parameter", "decay", "learning_rate_power"};
  for (const auto& [key, node] : keys)
    require(std::ranges::find(known, key.str()) != known.end(), ExitCode::usage,
            "{}: unknown key 'points.{}'{}", text.source.place(key.source()), key.str(),
            suggestion(key.str(), known));
  constexpr std::string_view wanted = "a list of ascending numbers > 0: how long each size is trained";
  const toml::node& node = text.required("tokens_per_parameter", wanted, keys);
  lengths = list_of<double>(node);
  text.want(!lengths.empty() && lengths.front() > 0 && std::isfinite(lengths.back()) &&
                std::ranges::adjacent_find(lengths, std::greater_equal()) == lengths.end(),
            "points.tokens_per_parameter", node, wanted);
  if (const toml::node* share = keys.get("decay")) {
    decay = number_or_nan(*share);
    text.want(decay > 0 && decay < 1, "points.decay", *share,
              "the share of each length in which the learning rate falls, in (0, 1)");
  }
  if (const toml::node* power = keys.get("learning_rate_power")) {
    learning_rate_power = number_or_nan(*power);
    text.want(std::isfinite(learning_rate_power), "points.learning_rate_power", *power,
              "a number: the learning rate goes as parameters to this power");
  }
}

void RefereeFile::read_sizes() {
  const SweepText& text = sections_->text;
  sections_->sizes = text.read_arms("size", text.required("size", "[[size]], at least one", text.table));
  for (const ArmText& size : sections_->sizes) {
    require(size.fragments.empty(), ExitCode::usage, "{}: size.recipe; want keys: size.set", size.where);
    require(std::ranges::find(sizes, size.name, &ModelSize::name) == sizes.end(), ExitCode::usage,
            "{}: a second size '{}'", size.where, size.name);
    Recipe recipe = text.recipe_of(text.base, "base");
    for (const auto* settings : {&text.shared, &size.settings})
      for (const Setting& setting : *settings)
        TableReader(recipe, text.source).read_key(setting.key, setting.at, *setting.value);
    for (const char* key : {"data.file", "train.eval_windows"})
      require(std::ranges::find(size.settings, key, &Setting::key) == size.settings.end(), ExitCode::usage,
              "{}: size.set has {}; want it in [set], so that all sizes are validated on the same windows",
              size.where, key);
    const std::int64_t parameters = parameters_of_blocks(recipe.model), step = recipe.tokens_per_step();
    require(sizes.empty() || sizes.back().parameters < parameters, ExitCode::usage,
            "{}: size '{}' has {} parameters, the one before it {}; want them to grow", size.where, size.name,
            parameters, sizes.empty() ? 0 : sizes.back().parameters);
    recipe.schedule.kind = ScheduleKind::wsd, recipe.schedule.decay_fraction = float(decay);
    for (const double length : lengths) {
      const auto steps = std::max<std::int64_t>(2, std::llround(length * double(parameters) / double(step)));
      const std::string name = fmt::format("{} x {:g}", size.name, length);
      require(points.empty() || points.back().size < sizes.size() ||
                  (points.back().steps < steps && points.back().name != name),
              ExitCode::usage,
              "{}: size '{}': {} and {} tokens a parameter have one length or one name; want lengths further "
              "apart",
              text.source.label, size.name, points.back().tokens_per_parameter, length);
      points.push_back({name, sizes.size(), parameters, length, steps * step, steps,
                        steps - first_decaying_step(recipe.schedule, steps)});
    }
    sizes.push_back({size.name, parameters, step});
  }
}

void RefereeFile::read_families() {
  const SweepText& text = sections_->text;
  const toml::node* node = text.table.get("families");
  if (!node) return;
  std::vector<std::string_view> free(arms.begin(), arms.end());
  std::erase(free, baseline);
  for (const auto& [key, value] : text.section("families", *node)) {
    Family& family = families.emplace_back(Family{std::string(key.str()), {}});
    for (const auto& arm : list_of<std::string>(value)) {
      require(std::erase(free, arm) == 1, ExitCode::usage,
              "{}: families.{}: '{}' is the baseline, in another family, or no arm{}",
              text.source.place(value.source()), key.str(), arm, suggestion(arm, free));
      family.arms.push_back(std::size_t(std::ranges::find(arms, arm) - arms.begin()));
    }
    text.want(!family.name.empty() && !family.arms.empty(), "families." + family.name, value,
              "a name, and a list of arms");
  }
}

void RefereeFile::read_tune() {
  const SweepText& text = sections_->text;
  const toml::node* node = text.table.get("tune");
  if (!node) return;
  tune = text.read_seeds("seeds", text.section("tune", *node));
  sections_->text.table["tune"].as_table()->erase("seeds");
  const auto axes = read_grid_axes(text.source, node->source(), *node->as_table());
  Recipe scratch = text.recipe_of(text.base, "base");
  const TableReader reader(scratch, text.source);
  const Knob* knob = axes.size() == 1 ? reader.find(axes.front().key) : nullptr;
  require(knob && std::holds_alternative<float*>(knob->field), ExitCode::usage,
          "{}: [tune] has {}; want seeds, and one key with a list of numbers, such as optim.learning_rate",
          text.source.place(node->source()),
          axes.size() == 1 ? axes.front().key : fmt::format("{} keys", axes.size()));
  sections_->tuned = axes.front(), tuned_key = axes.front().key;
  const std::string of_base = scratch.origin(tuned_key);
  std::set<float> different;
  for (std::size_t i = 0; i < axes.front().values.size(); ++i) {
    set_tuned(scratch, i);
    tuned_values.push_back(*axes.front().values[i]->value<double>());
    require(different.insert(*std::get<float*>(knob->field)).second, ExitCode::usage,
            "{}: [tune] has {} = {} twice; want each number once", text.source.place(axes.front().at),
            tuned_key, tuned_values.back());
  }
  for (std::size_t point = 0; point < points.size(); point += std::max<std::size_t>(1, lengths.size()))
    for (const SweepArm& arm : sweep(points[point]).arms)
      require(arm.recipe.origin(tuned_key) == of_base, ExitCode::usage,
              "{}: {} reaches arm '{}', but [tune] sets it in all arms; want it in one of the two",
              arm.recipe.origin(tuned_key), tuned_key, arm.name);
}

/// The signs have a blank on both sides. Arms' names may hold such signs too: the longest name counts.
Contrast RefereeFile::contrast_of(const std::string& text, const std::string& place) const {
  std::map<std::size_t, double> terms;
  std::int64_t sign = 1, total = 0;
  for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 3) {
    end = std::min({text.find(" - ", begin), text.find(" + ", begin), text.size()});
    for (const std::string& arm : arms)
      for (const char* next : {" - ", " + "})
        if ((text + " + ").compare(begin, arm.size() + 3, arm + next) == 0)
          end = std::max(end, begin + arm.size());
    const std::string name = text.substr(begin, end - begin);
    const auto found = std::ranges::find(arms, name);
    require(found != arms.end(), ExitCode::usage, "{}: contrasts: '{}' is no arm{}", place, name,
            suggestion(name, std::vector<std::string_view>(arms.begin(), arms.end())));
    require(terms.emplace(found - arms.begin(), sign).second, ExitCode::usage,
            "{}: contrasts: \"{}\" names '{}' twice; want each arm once", place, text, name);
    total += sign;
    if (end < text.size()) sign = text[end + 1] == '+' ? 1 : -1;
  }
  require(total == 0, ExitCode::usage,
          "{}: contrasts: \"{}\"{}; want a sum that adds as many arms as it takes away: \"a - b - c + d\"",
          place, text, terms.size() == 1 ? " is one arm" : "");
  Contrast sum{text, {}, {}};
  for (const auto& [arm, weight] : terms) sum.arms.push_back(arm), sum.weights.push_back(weight);
  for (const Contrast& other : contrasts)  // Holm's correction would count it twice
    require(other.arms != sum.arms ||
                std::abs(std::inner_product(sum.weights.begin(), sum.weights.end(), other.weights.begin(),
                                            0.0)) < double(terms.size()),
            ExitCode::usage, "{}: contrasts: \"{}\" is \"{}\" again", place, text, other.text);
  return sum;
}

Sweep RefereeFile::sweep(const Point& point) const {
  if (sections_->one_point) return *sections_->one_point;
  SweepText text = sections_->text;  // whose settings stay those of the one that is kept
  for (const Setting& setting : sections_->sizes[point.size].settings) {
    std::erase_if(text.shared, [&](const Setting& shared) { return shared.key == setting.key; });
    text.shared.push_back(setting);
  }
  const toml::table made{
      {"train.steps", point.steps}, {"schedule.kind", "wsd"}, {"schedule.decay_fraction", decay}};
  for (ArmText& arm : text.arms) {
    Recipe own;  // what its files say
    for (const Fragment& fragment : arm.fragments) own = text.recipe_of(fragment, "recipe", std::move(own));
    for (const auto& [key, value] : made) {
      const std::string name(key.str());
      require(!own.origins.contains(name) &&
                  std::ranges::find(arm.settings, name, &Setting::key) == arm.settings.end(),
              ExitCode::usage, "{}: arm '{}' has {}, which [points] decide", arm.where, arm.name, name);
      arm.settings.push_back({name, sections_->text.table.get("points")->source(), &value});
    }
  }
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
    require(arm.recipe.tokens_per_step() == sizes[point.size].tokens_per_step &&
                parameters_of_blocks(arm.recipe.model) == point.parameters,
            ExitCode::usage,
            "{}: arm '{}' has other parameters or tokens in a step than size '{}'; want model and batch in "
            "[set] or [[size]]",
            arm.where, arm.name, sizes[point.size].name);
  }
  return sweep;
}

void RefereeFile::set_tuned(Recipe& recipe, std::size_t value) const {
  const GridAxis& axis = *sections_->tuned;
  TableReader(recipe, sections_->text.source).read_key(axis.key, axis.at, *axis.values[value]);
}

}  // namespace mxtape
