#include <cstdio>
#include <sstream>
#include <utility>

#include "core/text/program_name.h"
#include "core/text/short_lines.h"
#include "dist/together.h"
#include "program/check.h"
#include "program/command.h"
#include "program/devices/plan_text.h"
#include "program/exit_code_names.h"
#include "program/run_words.h"
#include "program/show/recipe_json.h"
#include "program/trace.h"
#include "recipes/text/precision_table.h"

namespace mxtape {
namespace {

/// Exits as the text form does: with the code of the first problem.
void end(const CheckReport& report) {
  std::fflush(stdout);
  if (report.problems.empty()) return;
  for (const Error& problem : report.problems)
    fmt::print(stderr, "mxtape: {}\n", with_short_lines(problem.what()));
  throw Told(report.problems.front().code());
}

/// What a step of each phase really multiplied, if that was asked for and the model is known.
std::optional<TraceReport> trace_if(bool wanted, const Recipe& recipe, CheckReport& report) {
  if (!wanted || !report.problems.empty()) return {};
  Recipe known = recipe;
  known.model.vocabulary = report.numbers.vocabulary.value_or(recipe.model.vocabulary);
  TraceReport trace = trace_recipe(known);
  for (const auto& line : trace.differences)
    report.problems.emplace_back(ExitCode::internal, "what ran is not what was asked for: " + line);
  return trace;
}

constexpr int most_devices = 4096;

struct CheckOptions {
  RunWords words{};
  bool all = false;  ///< keys
  bool trace = false;
  int devices = 0;  ///< 0: not said
  std::string command;
};

/// What is checked: the recipe, or a branch without one.
std::string title(const CheckOptions& options) {
  return options.words.recipe.empty() ? "--from " + options.words.from.from : options.words.recipe;
}

std::string launched(const std::string& command, int devices) {
  return devices > 1 ? fmt::format("torchrun --no-python --nproc-per-node {} {}", devices, command) : command;
}

/// A recipe as to_toml() writes it, without the keys that nobody has set.
std::string without_defaults(const std::string& toml) {
  std::string text, section;
  std::istringstream lines(toml);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.ends_with("  # default")) continue;
    const bool heading = line.starts_with('[');
    if (heading) section = "\n" + line + "\n";
    if (heading && !line.starts_with("[[")) continue;  // until one of its keys comes
    text += std::exchange(section, "");
    if (!heading) text += line + "\n";
  }
  return text;
}

void print_check(const Recipe& recipe, const CheckOptions& options) {
  const std::string keys = to_toml(recipe);
  fmt::print("# {}, with everything that it extends and overrides{}\n{}\n", title(options),
             options.all ? "" : "; --all shows the defaults too",
             options.all ? keys : without_defaults(keys));
  fmt::print("precision: what was asked for, and what is planned to multiply it here\n{}\n",
             precision_table(recipe));
  CheckReport report = check_run(recipe, options.words.options, options.devices);
  for (const auto& fact : report.facts) fmt::print("{}\n", fact);
  if (const auto trace = trace_if(options.trace, recipe, report); trace && trace->differences.empty())
    fmt::print("traced      {} ran as the table says\n", trace->text());
  for (const auto& note : report.notes) fmt::print("note: {}\n", note);
  if (report.problems.empty()) fmt::print("ready: {}\n", options.command);
  end(report);
}

Json json_of(const CheckNumbers& n) {
  const auto known = [](const auto& value) { return Value(value, "not known, as a problem or a note says"); };
  Json json = object("train_tokens", known(n.train_tokens), "validation_tokens", known(n.validation_tokens),
                     "vocabulary", known(n.vocabulary), "epochs", known(n.epochs), "validation_windows",
                     known(n.validation_windows), "validation_share", known(n.validation_share), "parameters",
                     known(n.parameters), "memory_needed_bytes", known(n.memory_needed),
                     "memory_capacity_bytes", known(n.memory_capacity), "step_flops", known(n.step_flops),
                     "step_bf16_flops", known(n.bf16_flops), "step_integer_ops", known(n.integer_ops));
  if (n.strand_gradient_bytes) json["strand_gradient_bytes"] = *n.strand_gradient_bytes;
  put(json, "checkpoint_bytes", known(n.checkpoint_bytes), "disk_to_start_bytes", known(n.disk_to_start),
      "disk_needed_bytes", known(n.disk_needed), "disk_free_bytes", known(n.disk_free), "device",
      known(n.device));
  return json;
}

void print_check_json(const Recipe& recipe, const CheckOptions& options) {
  CheckReport report = check_run(recipe, options.words.options, options.devices);
  const auto trace = trace_if(options.trace, recipe, report);
  Json json = object("recipe", title(options), "keys", recipe_json(recipe), "precision",
                     precision_json(recipe), "numbers", json_of(report.numbers));
  if (report.devices) json["devices"] = json_of(*report.devices);
  Table problems("code; kind; message");
  for (const Error& problem : report.problems)
    problems.row(int(problem.code()), name_of(problem.code()), problem.what());
  put(json, "notes", report.notes, "problems", problems.json(), "ready", report.problems.empty(), "command",
      options.command);
  if (!report.weights_hash.empty())
    json["init"] = {{"weights", report.weights}, {"hash", report.weights_hash}};
  if (const auto& branch = options.words.options.branch) json["branch"] = Json::parse(branch->turn.to_json());
  if (trace)
    json["traced"] = object("phases", trace->phases, "gemms", trace->gemms, "attentions", trace->attentions,
                            "differences", trace->differences);
  print_json(json);
  end(report);
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "check", "Print a recipe resolved, its precision table, memory and disk, and what would fail later");
  auto options = std::make_shared<CheckOptions>();
  add_run_words(*command, options->words);
  command->add_flag("--all", options->all, "print the keys with their default, too");
  command->add_flag("--trace", options->trace,
                    "train one step of each phase on random tokens, and compare what was multiplied with the "
                    "precision table");
  command
      ->add_option("--devices", options->devices,
                   "so many processes share the run: what each needs, and what they send (docs/devices.md)")
      ->check(whole(1, most_devices));
  auto json = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->footer(
      "Every key of a recipe is an option too: --section.key=value (mxtape recipes --reference).");
  command->callback([=] {
    const Recipe recipe = wanted_recipe(*command, options->words);
    const RunOptions& run = options->words.options;
    options->command = launched(run.command, options->devices);
    if (!run.resume.empty()) options->command += " --resume " + shell_quoted(run.resume);
    if (options->devices > 0) options->command += fmt::format(" --devices {}", options->devices);
    (*json ? print_check_json : print_check)(recipe, *options);
  });
}

}  // namespace mxtape
