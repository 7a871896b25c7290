// The text of a recipe. One that is taken is written and read back without a difference.
#include "recipes/recipe.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  return fuzz::taken_or_refused([&] {
    const Recipe recipe = recipe_from_toml(fuzz::text_of(bytes, count), "input");
    const Recipe again = recipe_from_toml(to_toml(recipe), "again");
    fuzz::promise(differences(recipe, again).empty(), "a recipe reads back as it was written");
  });
}
