#include <cstdio>

#include "recipes/precision_table.h"
#include "train/check.h"
#include "train/command.h"

namespace mxtape {
namespace {

void print_check(const std::string& name, const Recipe& recipe, Resume resume, const std::string& command) {
  fmt::print("# {}, with everything that it extends and overrides\n{}\n", name, to_toml(recipe));
  fmt::print("precision: what was asked for, and what is planned to multiply it here\n{}\n",
             precision_table(recipe));
  const CheckReport report = check_run(recipe, resume);
  for (const auto& fact : report.facts) fmt::print("{}\n", fact);
  for (const auto& note : report.notes) fmt::print("note: {}\n", note);
  std::fflush(stdout);
  if (report.problems.empty()) {
    fmt::print("ready: {}\n", command);
    return;
  }
  const std::size_t others = report.problems.size() - 1;
  for (std::size_t i = 1; i <= others; ++i) fmt::print(stderr, "mxtape: {}\n", report.problems[i].what());
  throw report.problems.front();
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "check", "Print a recipe resolved, its precision table, memory and disk, and what would fail later");
  auto recipe = std::make_shared<std::string>();
  command->add_option("recipe", *recipe, "a .toml file, or the name of a shipped recipe (mxtape recipes)")
      ->required();
  auto resume = std::make_shared<std::string>();
  command
      ->add_option("--resume", *resume, "as for mxtape train: checkpoints that are there are then no problem")
      ->check(CLI::IsMember({"auto", "no"}));
  add_device_option(*command);
  command->allow_extras();
  command->footer(
      "Every key of a recipe is an option too: --section.key=value (mxtape recipes --reference).");
  command->callback([=] {
    std::vector<std::string> words = words_of(*command, *recipe);
    if (!resume->empty()) words.insert(words.end(), {"--resume", *resume});
    print_check(*recipe, read_recipe(*recipe, overrides_of(*command)),
                resume->empty() ? Resume::no : Resume::yes, train_command(words));
  });
}

}  // namespace mxtape
