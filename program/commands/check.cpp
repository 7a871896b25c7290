#include <cstdio>

#include "program/check.h"
#include "program/command.h"
#include "program/exit_code_names.h"
#include "program/json/recipe_json.h"
#include "recipes/text/precision_table.h"

namespace mxtape {
namespace {

/// Exits as the text form does: with the code of the first problem.
void end(const CheckReport& report) {
  std::fflush(stdout);
  if (report.problems.empty()) return;
  const std::size_t others = report.problems.size() - 1;
  for (std::size_t i = 1; i <= others; ++i) fmt::print(stderr, "mxtape: {}\n", report.problems[i].what());
  throw report.problems.front();
}

void print_check(const std::string& name, const Recipe& recipe, Resume resume, const std::string& command) {
  fmt::print("# {}, with everything that it extends and overrides\n{}\n", name, to_toml(recipe));
  fmt::print("precision: what was asked for, and what is planned to multiply it here\n{}\n",
             precision_table(recipe));
  const CheckReport report = check_run(recipe, resume);
  for (const auto& fact : report.facts) fmt::print("{}\n", fact);
  for (const auto& note : report.notes) fmt::print("note: {}\n", note);
  if (report.problems.empty()) fmt::print("ready: {}\n", command);
  end(report);
}

template <class T>
void put(Json& object, const char* name, const std::optional<T>& value) {
  constexpr const char* reason = "not known, as a problem or a note says";
  if (value)
    object[name] = *value;
  else
    put_unknown(object, name, reason);
}

Json json_of(const CheckNumbers& n) {
  Json json;
  put(json, "train_tokens", n.train_tokens);
  put(json, "validation_tokens", n.validation_tokens);
  put(json, "vocabulary", n.vocabulary);
  put(json, "epochs", n.epochs);
  put(json, "validation_windows", n.validation_windows);
  put(json, "validation_share", n.validation_share);
  put(json, "parameters", n.parameters);
  put(json, "memory_needed_bytes", n.memory_needed);
  put(json, "memory_capacity_bytes", n.memory_capacity);
  put(json, "step_flops", n.step_flops);
  put(json, "step_bf16_flops", n.bf16_flops);
  put(json, "checkpoint_bytes", n.checkpoint_bytes);
  put(json, "disk_needed_bytes", n.disk_needed);
  put(json, "disk_free_bytes", n.disk_free);
  put(json, "device", n.device.empty() ? std::nullopt : std::optional(n.device));
  return json;
}

void print_check_json(const std::string& name, const Recipe& recipe, Resume resume,
                      const std::string& command) {
  const CheckReport report = check_run(recipe, resume);
  Json json{{"recipe", name}, {"keys", recipe_json(recipe)}, {"precision", precision_json(recipe)}};
  json["numbers"] = json_of(report.numbers);
  json["notes"] = report.notes;
  json["problems"] = Json::array();
  for (const Error& problem : report.problems)
    json["problems"].push_back(
        {{"code", int(problem.code())}, {"kind", name_of(problem.code())}, {"message", problem.what()}});
  json["ready"] = report.problems.empty();
  json["command"] = command;
  print_json(json);
  end(report);
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
  auto json = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->allow_extras();
  command->footer(
      "Every key of a recipe is an option too: --section.key=value (mxtape recipes --reference).");
  command->callback([=] {
    std::vector<std::string> words = words_of(*command, *recipe);
    if (!resume->empty()) words.insert(words.end(), {"--resume", *resume});
    const auto print = *json ? print_check_json : print_check;
    print(*recipe, read_recipe(*recipe, overrides_of(*command)), resume->empty() ? Resume::no : Resume::yes,
          train_command(words));
  });
}

}  // namespace mxtape
