#include "core/text/nearest_name.h"
#include "program/show/command.h"
#include "program/show/recipe_json.h"
#include "recipes/knobs.h"
#include "recipes/shipped.h"

namespace mxtape {
namespace {

const ShippedRecipe& shipped_recipe(const std::string& name) {
  for (const auto& shipped : shipped_recipes())
    if (shipped.name == name) return shipped;
  fail(ExitCode::usage, "no shipped recipe '{}'{}", name, suggestion(name, names_in(shipped_recipes())));
}

Value value_of(const ShippedRecipe& shipped) {
  return object("name", shipped.name, "kind", shipped.name.starts_with("precision/") ? "precision" : "run",
                "description", read_recipe(std::string(shipped.name)).description);
}

Report all_recipes() {
  Report out;
  out.line("Shipped recipes: mxtape train NAME, or extends = \"NAME\" in a file of your own");
  std::vector<Value> recipes;
  for (const bool precision : {false, true}) {
    out.line("\n{}:", precision
                          ? "Precisions, to be combined: extends = [\"shakespeare\", \"precision/mxfp4\"]"
                          : "Runs");
    for (const auto& shipped : shipped_recipes())
      if (shipped.name.starts_with("precision/") == precision)
        out.line("  {:<38}  {}", shipped.name, read_recipe(std::string(shipped.name)).description);
  }
  for (const auto& shipped : shipped_recipes()) recipes.push_back(value_of(shipped));
  out.put("recipes", recipes);
  return out;
}

Report reference() {
  Report out;
  out.text(recipe_reference());
  Recipe defaults;
  Table keys("key; default; accepts; meaning");
  for (const Knob& knob : knobs(defaults)) keys.row(knob.name, value_of(knob), wanted_text(knob), knob.help);
  out.put("keys", keys);
  return out;
}

struct Arguments {
  std::string name;
  bool reference = false;
};

Options options(Arguments& a) {
  return {{"[recipe]", &a.name, "print this recipe as it is written, to start your own from"},
          {"--reference", &a.reference, "print docs/recipes.md: every key and slot", excludes("recipe")}};
}

Report run(const Arguments& a) {
  if (a.reference) return reference();
  if (a.name.empty()) return all_recipes();
  const ShippedRecipe& shipped = shipped_recipe(a.name);
  Report out;
  out.text(std::string(shipped.text));
  out.put("*", value_of(shipped), "toml", shipped.text);
  return out;
}

}  // namespace

Command commands::recipes() {
  return {"recipes", "List the shipped recipes, show one, or describe every key", with(options, run)};
}

}  // namespace mxtape
