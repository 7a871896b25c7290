#include "train/command.h"

#include <fmt/format.h>

#include "recipes/recipe.h"

namespace mxtape {

CLI::Validator at_least(double low) {
  const std::string range = fmt::format(">={}", low);
  const auto check = [low](const std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= low;
    return fits ? std::string() : fmt::format("'{}', want a number of at least {}", text, low);
  };
  return {check, range, "at least"};
}

std::vector<std::string> overrides_of(const CLI::App& command) {
  std::vector<std::string> options;
  for (const auto* option : command.get_options())
    options.insert(options.end(), option->get_lnames().begin(), option->get_lnames().end());
  return overrides_from_arguments(command.remaining(), options);
}

}  // namespace mxtape
