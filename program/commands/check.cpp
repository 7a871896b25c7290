#include <algorithm>
#include <cstdio>

#include "program/branch.h"
#include "program/check.h"
#include "program/command.h"
#include "program/devices/plan_text.h"
#include "program/exit_code_names.h"
#include "program/init/init_recipe.h"
#include "program/init/initial_weights.h"
#include "program/json/recipe_json.h"
#include "program/resume.h"
#include "program/trace.h"
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
  Resume resume = Resume::no;
  std::optional<Branch> branch{};
  bool trace = false;
  int devices = 0;  ///< 0: not said
  std::string command;
};

std::string launched(const std::string& command, int devices) {
  return devices > 1 ? fmt::format("torchrun --no-python --nproc-per-node {} {}", devices, command) : command;
}

/// What a run with train.init would begin with; one that goes on from a checkpoint of its own does not.
void look_at_weights(const Recipe& recipe, const CheckOptions& options, CheckReport& report) {
  const std::filesystem::path folder = std::filesystem::path(recipe.train.out) / recipe.name;
  const bool goes_on = options.resume == Resume::yes && !list_checkpoints(folder).empty();
  if (recipe.train.init.empty() || goes_on) return;
  try {
    InitialWeights weights(recipe.train.init);
    weights.check_folder(folder);
    std::error_code unknown;
    if (std::filesystem::exists(recipe.data.file, unknown))
      weights.check_tokens(TokenFile::read(recipe.data.file), recipe.data.file);
    report.weights = weights.text();
    report.weights_hash = weights.content_hash(recipe.model);
    report.facts.push_back(
        fmt::format("init        {}, content hash {}", report.weights, report.weights_hash));
    report.notes.insert(report.notes.end(), weights.notes().begin(), weights.notes().end());
  } catch (const Error& e) {
    report.problems.push_back(e);
  }
}

CheckReport report_on(const Recipe& recipe, const CheckOptions& options) {
  CheckReport report = check_run(recipe, options.resume, options.devices);
  if (!options.branch) {
    try {
      const auto files = list_checkpoints(std::filesystem::path(recipe.train.out) / recipe.name);
      require_reached_starts(recipe, files.empty() ? 0 : step_of_checkpoint(files.front()).value_or(0));
    } catch (const Error& e) {
      report.problems.push_back(e);
    }
  }
  if (!options.branch) look_at_weights(recipe, options, report);
  if (!options.branch || recipe.data.file.empty()) return report;
  try {
    options.branch->check_data(TokenFile::read(recipe.data.file));
  } catch (const Error& e) {
    const auto same = [&](const Error& problem) { return std::string_view(problem.what()) == e.what(); };
    if (std::none_of(report.problems.begin(), report.problems.end(), same)) report.problems.push_back(e);
  }
  return report;
}

void print_check(const std::string& name, const Recipe& recipe, const CheckOptions& options) {
  fmt::print("# {}, with everything that it extends and overrides\n{}\n", name, to_toml(recipe));
  fmt::print("precision: what was asked for, and what is planned to multiply it here\n{}\n",
             precision_table(recipe));
  CheckReport report = report_on(recipe, options);
  for (const auto& fact : report.facts) fmt::print("{}\n", fact);
  if (options.branch)
    for (const auto& line : options.branch->lines) fmt::print("{}\n", line);
  if (const auto trace = trace_if(options.trace, recipe, report); trace && trace->differences.empty())
    fmt::print("traced      {} ran as the table says\n", trace->text());
  for (const auto& note : report.notes) fmt::print("note: {}\n", note);
  if (report.problems.empty()) fmt::print("ready: {}\n", options.command);
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
  put(json, "step_integer_ops", n.integer_ops);
  if (n.strand_gradient_bytes) json["strand_gradient_bytes"] = *n.strand_gradient_bytes;
  put(json, "checkpoint_bytes", n.checkpoint_bytes);
  put(json, "disk_needed_bytes", n.disk_needed);
  put(json, "disk_free_bytes", n.disk_free);
  put(json, "device", n.device.empty() ? std::nullopt : std::optional(n.device));
  return json;
}

void print_check_json(const std::string& name, const Recipe& recipe, const CheckOptions& options) {
  CheckReport report = report_on(recipe, options);
  const auto trace = trace_if(options.trace, recipe, report);
  Json json{{"recipe", name}, {"keys", recipe_json(recipe)}, {"precision", precision_json(recipe)}};
  json["numbers"] = json_of(report.numbers);
  if (report.devices) json["devices"] = json_of(*report.devices);
  json["notes"] = report.notes;
  json["problems"] = Json::array();
  for (const Error& problem : report.problems)
    json["problems"].push_back(
        {{"code", int(problem.code())}, {"kind", name_of(problem.code())}, {"message", problem.what()}});
  json["ready"] = report.problems.empty();
  json["command"] = options.command;
  if (!report.weights_hash.empty())
    json["init"] = {{"weights", report.weights}, {"hash", report.weights_hash}};
  if (options.branch) json["branch"] = Json::parse(options.branch->turn.to_json());
  if (trace)
    json["traced"] = {{"phases", trace->phases},
                      {"gemms", trace->gemms},
                      {"attentions", trace->attentions},
                      {"differences", trace->differences}};
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
  auto options = std::make_shared<CheckOptions>();
  command->add_flag("--trace", options->trace,
                    "train one step of each phase on random tokens, and compare what was multiplied with the "
                    "precision table");
  command
      ->add_option("--devices", options->devices,
                   "so many processes share the run: what each needs, and what they send (docs/devices.md)")
      ->check(whole(1, most_devices));
  auto json = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->allow_extras();
  command->footer(
      "Every key of a recipe is an option too: --section.key=value (mxtape recipes --reference).");
  auto from = std::make_shared<BranchOptions>();
  add_branch_options(*command, *from);
  repeatable(command->add_option("--allow-change", from->allow_change,
                                 "with --from: a key or section that may differ from the parent's recipe"));
  command->callback([=] {
    std::vector<std::string> words = words_of(*command, *recipe);
    if (!resume->empty()) words.insert(words.end(), {"--resume", *resume});
    const auto print = *json ? print_check_json : print_check;
    options->resume = resume->empty() ? Resume::no : Resume::yes;
    if (options->devices > 0) words.insert(words.end(), {"--devices", std::to_string(options->devices)});
    options->command = launched(train_command(words), options->devices);
    require(from->allow_change.empty() || !from->from.empty(), ExitCode::usage,
            "--allow-change: a recipe differs from a parent's; want --from RUN with it");
    require_known_changes(from->allow_change);
    if (from->from.empty())
      return print(*recipe, read_recipe_of_run(*recipe, overrides_of(*command), *resume), *options);
    words.insert(words.end(), {"--from", from->from});
    for (const auto& word : from->fresh) words.push_back("--fresh=" + word);
    for (const auto& key : from->allow_change) words.push_back("--allow-change=" + key);
    options->command = launched(train_command(words), options->devices);
    options->branch = plan_branch(*from, *recipe, overrides_of(*command));
    print(*recipe, options->branch->recipe, *options);
  });
}

}  // namespace mxtape
