#include "recipes/sweep/sweep_file.h"

#include <algorithm>

#include "core/error.h"
#include "core/files/in_file.h"
#include "core/text/nearest_name.h"
#include "recipes/sweep/arm_checks.h"
#include "recipes/sweep/sweep_text.h"

namespace mxtape {
namespace {

/// Makes recipes of a sweep's text.
class ArmBuilder {
 public:
  ArmBuilder(const SweepText& text, const InitialModel& model_of)
      : text_(text), model_of_(model_of), base_(text.recipe_of(text.base, "base")) {}

  BuiltArm build(const ArmText& arm) const {
    BuiltArm built{{arm.name, arm.where, recipe_of(arm, nullptr)}, {}, {}};
    at_place(fmt::format("{}: arm '{}'", arm.where, arm.name), [&] { settle(built.arm.recipe); });
    // What [set] says is compared with the base: an arm's recipe may have overruled it since.
    const ArmText bare{.name = arm.name, .where = arm.where, .fragments = {}, .settings = {}};
    for (const Setting& setting : text_.shared) add_omissions(built.shared, arm, bare, setting);
    for (const Setting& setting : arm.settings) add_omissions(built.own, arm, arm, setting);
    return built;
  }

 private:
  void settle(Recipe& recipe) const {
    if (model_of_ && !recipe.train.init.empty()) take_model(recipe, model_of_(recipe.train.init));
    settle_and_validate(recipe);
  }

  Recipe recipe_of(const ArmText& arm, const Setting* without) const {
    Recipe recipe = base_;
    const auto apply = [&](const std::vector<Setting>& settings) {
      for (const Setting& setting : settings)
        if (&setting != without)
          TableReader(recipe, text_.source).read_key(setting.key, setting.at, *setting.value);
    };
    apply(text_.shared);
    for (const Fragment& fragment : arm.fragments)
      recipe = text_.recipe_of(fragment, "recipe", std::move(recipe));
    apply(arm.settings);
    recipe.name = arm.name;
    recipe.description.clear();
    recipe.seed = text_.seeds.front();
    const auto decide = [&](const char* key, std::int64_t& field, std::int64_t value) {
      if (recipe.origin(key).starts_with(text_.source.label + ":")) return;
      field = value;
      recipe.origins[key] = "the sweep";
    };
    decide("train.sample_tokens", recipe.train.sample_tokens, 0);
    decide("train.keep", recipe.train.keep, 1);
    return recipe;
  }

  /// The recipe without the key; of rules, without each of them. `said`: the arm in which the key is compared
  /// with what holds without it.
  void add_omissions(std::vector<Omission>& omissions, const ArmText& arm, const ArmText& said,
                     const Setting& setting) const {
    const auto add = [&](const std::string& key, const toml::source_region& at, Recipe recipe, bool judged) {
      try {
        settle(recipe);
      } catch (const Error&) {
        judged = false;
      }
      omissions.push_back({key, text_.source.place(at), std::move(recipe), judged});
    };
    if (setting.key != "precision.rules") {
      const bool news = !differences(recipe_of(said, &setting), recipe_of(said, nullptr)).empty();
      return add(setting.key, setting.at, recipe_of(arm, &setting), news);
    }
    int number = 0;
    for (const auto& rule : *setting.value->as_array()) {
      Recipe recipe = recipe_of(arm, nullptr);
      const std::string where = text_.source.line(rule.source());
      std::erase_if(recipe.precision.rules, [&](const PrecisionRule& r) { return r.where == where; });
      add(fmt::format("precision.rules {}", ++number), rule.source(), std::move(recipe), true);
    }
  }

  const SweepText& text_;
  const InitialModel& model_of_;
  Recipe base_;
};

void require_names(const std::vector<ArmText>& arms, const SweepText& text) {
  std::vector<std::string_view> names;
  for (const ArmText& arm : arms) {
    require(std::find(names.begin(), names.end(), arm.name) == names.end(), ExitCode::usage,
            "{}: a second arm '{}'; want another name", arm.where, arm.name);
    require(arm.name.size() <= 200, ExitCode::usage, "{}: its name has {} bytes; want at most 200, for files",
            arm.where, arm.name.size());
    names.push_back(arm.name);
  }
  require(std::find(names.begin(), names.end(), text.baseline) != names.end(), ExitCode::usage,
          "{}: baseline = \"{}\" is no arm{}", text.source.place(text.table.get("baseline")->source()),
          text.baseline, suggestion(text.baseline, names));
}

}  // namespace

std::size_t Sweep::baseline_index() const {
  return std::size_t(std::ranges::find(arms, baseline, &SweepArm::name) - arms.begin());
}

Sweep sweep_of(const SweepText& text, const InitialModel& model_of) {
  require_names(text.arms, text);
  const ArmBuilder builder(text, model_of);
  std::vector<BuiltArm> built;
  for (const ArmText& arm : text.arms) built.push_back(builder.build(arm));
  check_arms(built, text.baseline);
  Sweep sweep{.file = text.source.label, .baseline = text.baseline, .seeds = text.seeds, .arms = {}};
  for (BuiltArm& arm : built) sweep.arms.push_back(std::move(arm.arm));
  return sweep;
}

}  // namespace mxtape
