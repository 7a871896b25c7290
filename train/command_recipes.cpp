#include <cstdio>

#include "core/error.h"
#include "core/nearest_name.h"
#include "recipes/recipe.h"
#include "recipes/reference.h"
#include "recipes/shipped.h"
#include "train/command.h"

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

void show_recipe(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& shipped : shipped_recipes()) {
    if (shipped.name == name) {
      fmt::print("{}", shipped.text);
      return;
    }
    names.push_back(shipped.name);
  }
  fail(ExitCode::usage, "no shipped recipe '{}'{}", name, suggestion(name, names));
}

}  // namespace

void add_recipes_command(CLI::App& app) {
  auto* command = app.add_subcommand("recipes", "List the shipped recipes, show one, or describe every key");
  auto name = std::make_shared<std::string>();
  auto reference = std::make_shared<bool>(false);
  auto* shown =
      command->add_option("name", *name, "print this recipe as it is written, to start your own from");
  command->add_flag("--reference", *reference, "print docs/recipes.md: every key, slot and shipped recipe")
      ->excludes(shown);
  command->callback([=] {
    if (*reference)
      fmt::print("{}", recipe_reference());
    else if (name->empty())
      list_recipes();
    else
      show_recipe(*name);
  });
}

}  // namespace mxtape
