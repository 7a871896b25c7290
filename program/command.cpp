#include "program/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/program_name.h"
#include "program/branch.h"
#include "program/help_text.h"
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

CLI::Validator at_least(double low) {
  const std::string range = low == 0 ? "" : fmt::format("at least {}", low);
  const auto check = [low](const std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= low && std::isfinite(value);
    return fits ? std::string() : fmt::format("'{}', want a finite number of at least {}", text, low);
  };
  return {check, range, "at least"};
}

CLI::Validator between(double low, double high) {
  const auto check = [low, high](const std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return fits ? std::string() : fmt::format("'{}', want a number from {} to {}", text, low, high);
  };
  return {check, fmt::format("{} to {}", low, high), "between"};
}

CLI::Validator whole(std::uint64_t low, std::uint64_t high) {
  const auto check = [low, high](const std::string& text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    const bool plain = parsed.ec == std::errc{} && parsed.ptr == end && (text == "0" || text[0] != '0');
    return plain && value >= low && value <= high
               ? std::string()
               : fmt::format("'{}', want a whole number from {} to {}", text, low, high);
  };
  const bool open = high == std::uint64_t(std::numeric_limits<std::int64_t>::max());
  return {check,
          !open      ? fmt::format("{} to {}", low, high)
          : low == 0 ? std::string()
                     : fmt::format("at least {}", low),
          "whole"};
}

void require_output(const std::string& out, const std::vector<std::string>& others) {
  require(!out.empty(), ExitCode::usage, "'': want a name for the file to write");
  const fs::path file = file_to_write(out);
  for (const auto& other : others)
    require(!same_file(file, other), ExitCode::usage,
            "{}: this command reads or writes that file already; name another one", out);
}

CLI::Option* repeatable(CLI::Option* option) {
  return option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

bool is_repeatable(const CLI::Option& option) {
  return !option.get_positional() && option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}

CLI::Option* add_json_option(CLI::App& command, bool& json) {
  return command.add_flag("--json", json, "print one JSON document instead (docs/json.md)");
}

std::string train_command(const std::vector<std::string>& words) {
  std::string command = program_name() + " train";
  for (const auto& word : words) command += " " + shell_quoted(word);
  return command;
}

void add_device_option(CLI::App& command) {
  command.add_option("--device", "short for --compute.device: cpu or cuda");
}

void add_branch_options(CLI::App& command, BranchOptions& options) {
  auto* from = command.add_option("--from", options.from,
                                  "branch: begin at this checkpoint, or run's newest, or RUN@STEP, with its "
                                  "recipe and what this one says on top");
  repeatable(command
                 .add_option("--fresh", options.fresh,
                             "of a branch: begin anew with the optimizer's moments, the schedule, or with no "
                             "precision but this recipe's; may be repeated")
                 ->check(CLI::IsMember({"optimizer", "schedule", "precision"}))
                 ->needs(from));
}

std::vector<std::string> overrides_of(const CLI::App& command) {
  std::vector<std::string> options;
  for (const auto* option : command.get_options())
    options.insert(options.end(), option->get_lnames().begin(), option->get_lnames().end());
  auto overrides = overrides_from_arguments(command.remaining(), options);
  const auto* device = command.get_option("--device");
  if (device->empty()) return overrides;
  const std::string same = "compute.device=" + device->as<std::string>();
  const auto given = std::find_if(overrides.begin(), overrides.end(),
                                  [](const auto& text) { return text.starts_with("compute.device="); });
  if (given == overrides.end())
    overrides.push_back(same);
  else
    require(*given == same, ExitCode::usage,
            "command line: --device {} and --{} contradict each other; want one of them",
            device->as<std::string>(), *given);
  return overrides;
}

std::vector<std::string> words_of(const CLI::App& command, const std::string& recipe) {
  std::vector<std::string> words = command.remaining();
  if (!recipe.empty()) words.insert(words.begin(), recipe);
  if (const auto* device = command.get_option("--device"); !device->empty())
    words.insert(words.end(), {"--device", device->as<std::string>()});
  return words;
}

void add_commands(CLI::App& app) {
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpText>());
  // main() prints more; the flag is here for --help, the manual and the completion.
  app.set_version_flag("-V,--version", MXTAPE_VERSION,
                       "Version, commit, compiler and libraries; with --json after it as JSON");
  for (const auto add :
       {add_train_command,   add_check_command,         add_sweep_command,      add_sample_command,
        add_eval_command,    add_post_training_command, add_plot_command,       add_info_command,
        add_inspect_command, add_verify_command,        add_diff_command,       add_import_command,
        add_export_command,  add_replay_command,        add_prepare_command,    add_tokenizer_command,
        add_corpus_command,  add_formats_command,       add_compare_command,    add_quantize_command,
        add_recipes_command, add_profile_command,       add_completion_command, add_manual_command})
    add(app);
}

}  // namespace mxtape
