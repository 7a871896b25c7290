// Words of a command line, one a line, on top of a shipped recipe.
#include <sstream>
#include <vector>

#include "recipes/recipe.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  return fuzz::taken_or_refused([&] {
    std::istringstream lines(fuzz::text_of(bytes, count));
    std::vector<std::string> words;
    for (std::string line; std::getline(lines, line);) words.push_back(line);
    const Recipe recipe = read_recipe("shakespeare-mxfp4", overrides_from_arguments(words));
    fuzz::promise(differences(recipe, recipe_from_toml(to_toml(recipe), "again")).empty(),
                  "a recipe reads back as it was written");
  });
}
