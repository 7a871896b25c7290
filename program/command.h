#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mxtape {

struct BranchOptions;

/// A check of an option: a number that is not below `low`. (CLI11's NonNegativeNumber admits NaN and prints
/// the largest double, 309 digits, as the range's other end.)
CLI::Validator at_least(double low);
/// The same for a number from `low` to `high`. (CLI11's Range admits NaN as well.)
CLI::Validator between(double low, double high);

/// The same for a whole number in plain decimal digits, as recipes take them. (CLI11 wraps -1, clamps what is
/// too large and reads 010 as 8.)
CLI::Validator whole(std::uint64_t low, std::uint64_t high = std::numeric_limits<std::int64_t>::max());

/// Refuses, before the work, what write_atomically would refuse after it, and an output that is one of
/// `others`: a file that is read, or another output.
void require_output(const std::string& out, const std::vector<std::string>& others);

/// An option of which --help shows the check and the default, which `field` holds.
template <class T>
CLI::Option* add_checked(CLI::App& command, std::string name, T& field, std::string help,
                         const CLI::Validator& check) {
  return command.add_option(std::move(name), field, std::move(help))->check(check)->capture_default_str();
}

/// An option that may be given several times. Each use takes one value: the next word may be an operand.
CLI::Option* repeatable(CLI::Option*);
bool is_repeatable(const CLI::Option&);

/// The option --json of a command that prints results (docs/json.md).
CLI::Option* add_json_option(CLI::App& command, bool& json);

/// `mxtape train` (by the name it was started with) with these words, quoted where a shell would take them
/// apart.
std::string train_command(const std::vector<std::string>& words);

/// --device, short for --compute.device, for the commands that take every key of a recipe.
void add_device_option(CLI::App& command);
/// --from and --fresh, for the commands that may begin at another run's checkpoint.
void add_branch_options(CLI::App& command, BranchOptions&);
/// The words of such a command that CLI11 left over, and its --device, as overrides for read_recipe; the
/// command's own options are what a misspelt one may have meant. Throws Error(usage) where --device and
/// --compute.device name two devices.
std::vector<std::string> overrides_of(const CLI::App& command);
/// The words with which the user gave this recipe and its overrides, for train_command.
std::vector<std::string> words_of(const CLI::App& command, const std::string& recipe);

/// Each command of the program is one file, command_<name>.cpp, with a function that adds itself to the
/// command line. The callback does the work and throws Error; main turns that into the message and the exit
/// code.
void add_train_command(CLI::App&);
void add_check_command(CLI::App&);
void add_sweep_command(CLI::App&);
void add_sample_command(CLI::App&);
void add_eval_command(CLI::App&);
void add_plot_command(CLI::App&);
void add_info_command(CLI::App&);
void add_inspect_command(CLI::App&);
void add_verify_command(CLI::App&);
void add_diff_command(CLI::App&);
void add_import_command(CLI::App&);
void add_export_command(CLI::App&);
void add_post_training_command(CLI::App&);
void add_replay_command(CLI::App&);
void add_prepare_command(CLI::App&);
void add_tokenizer_command(CLI::App&);
void add_corpus_command(CLI::App&);
void add_formats_command(CLI::App&);
void add_compare_command(CLI::App&);
void add_quantize_command(CLI::App&);
void add_recipes_command(CLI::App&);
void add_profile_command(CLI::App&);
void add_completion_command(CLI::App&);
void add_manual_command(CLI::App&);
/// All of them, and the program's own options. `app` must outlive its callbacks.
void add_commands(CLI::App& app);

}  // namespace mxtape
