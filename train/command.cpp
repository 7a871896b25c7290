#include "train/command.h"

#include <fmt/format.h>

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

}  // namespace mxtape
