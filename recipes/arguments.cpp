#include "core/error.h"
#include "recipes/recipe.h"

namespace mxtape {

std::vector<std::string> overrides_from_arguments(std::span<const std::string> arguments) {
  std::vector<std::string> overrides;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    require(word.size() > 2 && word.starts_with("--"), ExitCode::usage,
            "command line: '{}'; want --section.key=value to change a recipe", word);
    if (word.find('=') != std::string::npos) {
      overrides.push_back(word.substr(2));
      continue;
    }
    // The next word is the value even if it starts with '-': no recipe key goes without one.
    require(i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"), ExitCode::usage,
            "command line: '{0}' has no value; want {0}=value", word);
    overrides.push_back(word.substr(2) + "=" + arguments[++i]);
  }
  return overrides;
}

}  // namespace mxtape
