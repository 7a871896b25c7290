#include <cstdio>

#include "core/error.h"
#include "core/text/nearest_name.h"
#include "program/command.h"
#include "program/show/recipe_json.h"
#include "recipes/knobs.h"
#include "recipes/shipped.h"
#include "recipes/text/reference.h"

namespace mxtape {
namespace {

void list_recipes() {
  fmt::print("Shipped recipes: mxtape train NAME, or extends = \"NAME\" in a file of your own\n");
  for (const bool precision : {false, true}) {
    fmt::print("\n{}:\n", precision
                              ? "Precisions, to be combined: extends = [\"shakespeare\", \"precision/mxfp4\"]"
                              : "Runs");
    for (const auto& shipped : shipped_recipes())
      if (shipped.name.starts_with("precision/") == precision)
        fmt::print("  {:<38}  {}\n", shipped.name, read_recipe(std::string(shipped.name)).description);
  }
}

const ShippedRecipe& shipped_recipe(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& shipped : shipped_recipes()) {
    if (shipped.name == name) return shipped;
    names.push_back(shipped.name);
  }
  fail(ExitCode::usage, "no shipped recipe '{}'{}", name, suggestion(name, names));
}

Json json_of(const ShippedRecipe& shipped) {
  return object("name", shipped.name, "kind", shipped.name.starts_with("precision/") ? "precision" : "run",
                "description", read_recipe(std::string(shipped.name)).description);
}

void print_recipes_json() {
  Json recipes = Json::array();
  for (const auto& shipped : shipped_recipes()) recipes.push_back(json_of(shipped));
  print_json(object("recipes", recipes));
}

void print_reference_json() {
  Recipe defaults;
  Table keys("key; default; accepts; meaning");
  for (const Knob& knob : knobs(defaults))
    keys.row(knob.name, json_value(knob), wanted_text(knob), knob.help);
  print_json(object("keys", keys.json()));
}

struct Arguments {
  std::string name;
  bool reference = false, json = false;
};

void run(const Arguments& a) {
  if (a.reference) return a.json ? print_reference_json() : fmt::print("{}", recipe_reference());
  if (a.name.empty()) return a.json ? print_recipes_json() : list_recipes();
  const ShippedRecipe& shipped = shipped_recipe(a.name);
  if (!a.json) return fmt::print("{}", shipped.text);
  print_json(object("*", json_of(shipped), "toml", shipped.text));
}

}  // namespace

void add_recipes_command(CLI::App& app) {
  auto* command = app.add_subcommand("recipes", "List the shipped recipes, show one, or describe every key");
  auto a = std::make_shared<Arguments>();
  auto* shown =
      command->add_option("recipe", a->name, "print this recipe as it is written, to start your own from");
  command->add_flag("--reference", a->reference, "print docs/recipes.md: every key, slot and shipped recipe")
      ->excludes(shown);
  add_json_option(*command, a->json);
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
