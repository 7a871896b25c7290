#include "train/command.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/atomic_file.h"
#include "core/error.h"
#include "recipes/recipe.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// Of files that need not exist yet.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const fs::path whole = fs::weakly_canonical(fs::absolute(a), error);
  return !whole.empty() && whole == fs::weakly_canonical(fs::absolute(b), error);
}

}  // namespace

CLI::Validator at_least(double low) {
  const std::string range = fmt::format(">={}", low);
  const auto check = [low](const std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= low;
    return fits ? std::string() : fmt::format("'{}', want a number of at least {}", text, low);
  };
  return {check, range, "at least"};
}

CLI::Validator between(double low, double high) {
  const auto check = [low, high](const std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return fits ? std::string() : fmt::format("'{}', want a number from {} to {}", text, low, high);
  };
  return {check, fmt::format("in [{}, {}]", low, high), "between"};
}

void require_output(const std::string& out, const std::vector<std::string>& others) {
  const fs::path file = file_to_write(out);
  for (const auto& other : others)
    require(!same_file(file, other), ExitCode::usage,
            "{}: this command reads or writes that file already; name another one", out);
}

std::vector<std::string> overrides_of(const CLI::App& command) {
  std::vector<std::string> options;
  for (const auto* option : command.get_options())
    options.insert(options.end(), option->get_lnames().begin(), option->get_lnames().end());
  return overrides_from_arguments(command.remaining(), options);
}

}  // namespace mxtape
