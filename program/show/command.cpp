#include "program/show/command.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "core/files/atomic_file.h"
#include "core/text/short_lines.h"
#include "dist/together.h"
#include "recipes/recipe.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// Of files that need not exist yet.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const auto whole = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return !whole(a).empty() && whole(a) == whole(b);
}

}  // namespace

std::vector<std::string> split(const std::string& words) {
  std::istringstream in(words);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string Option::key() const {
  if (name[0] == '[') return name.substr(1, name.size() - 2);
  return name.substr(name.find(',') + 1);
}

std::string Option::range_text() const {
  const auto& [low, high] = std::pair(limits.low, limits.high);
  if (!std::isinf(high)) return fmt::format("{} to {}", low, high);
  return low == 0 ? "" : fmt::format("at least {}", low);
}

std::string Option::default_text() const {
  return std::visit(
      [&](const auto* value) -> std::string {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, bool>)
          return "";
        else if constexpr (std::is_arithmetic_v<T>)
          return double(*value) < limits.low || double(*value) > limits.high ? "" : fmt::format("{}", *value);
        else if constexpr (std::is_same_v<T, std::string>)
          return *value;
        else
          return value->empty() ? "" : fmt::format("[{}]", fmt::join(*value, ","));
      },
      field);
}

void print(Report report, const Given& given) {
  report.print(given.json);
  if (report.problems.empty()) return;
  std::fflush(stdout);
  for (const Error& problem : report.problems)
    fmt::print(stderr, "mxtape: {}\n", with_short_lines(problem.what()));
  throw SaidElsewhere(report.problems.front().code());
}

void require_output(const std::string& out, const std::vector<std::string>& others, bool over) {
  require(fs::path(out).has_filename(), ExitCode::usage, "'{}': want a file's name", out);
  const fs::path file = file_to_write(out);
  for (const auto& other : others)
    require(!same_file(file, other), ExitCode::usage,
            "{}: this command reads or writes that file already; name another one", out);
  require(over || !fs::exists(file), ExitCode::usage,
          "{}: is there already; --force writes over it, or name another file", out);
}

Option device_option(std::string& field) {
  return {"--device", &field, "short for --compute.device: cpu or cuda"};
}

Option device_of_run_option(std::string& field) {
  return {"--device", &field, "cpu or cuda; default: the device of the checkpoint's recipe"};
}

std::vector<std::string> overrides_of(const Given& given, const std::string& device) {
  auto overrides = overrides_from_arguments(given.rest, given.known);
  if (!given("--device")) return overrides;
  const std::string same = "compute.device=" + device;
  const auto other = std::find_if(overrides.begin(), overrides.end(),
                                  [](const auto& text) { return text.starts_with("compute.device="); });
  if (other == overrides.end())
    overrides.push_back(same);
  else
    require(*other == same, ExitCode::usage,
            "command line: --device {} and --{} contradict each other; want one of them", device, *other);
  return overrides;
}

}  // namespace mxtape
