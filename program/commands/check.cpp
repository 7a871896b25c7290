#include <sstream>

#include "core/text/program_name.h"
#include "program/commands/exit_code_names.h"
#include "program/plan/run_plan.h"
#include "program/run/trace.h"
#include "program/show/command.h"
#include "program/show/recipe_json.h"
#include "recipes/text/precision_table.h"

namespace mxtape {
namespace {

struct Arguments {
  RunWords words{};
  bool all = false;  ///< keys
  bool trace = false;
  int devices = 0;  ///< 0: not said
};

/// What is checked: the recipe, or a branch without one.
std::string title(const Arguments& options) {
  return options.words.recipe.empty() ? "--from " + options.words.from : options.words.recipe;
}

/// What trains it.
std::string command_of(const Arguments& a) {
  const RunWords& words = a.words;
  std::string command = words.command;
  if (!words.resume.empty()) command += " --resume " + shell_quoted(words.resume);
  if (a.devices > 0) command += fmt::format(" --devices {}", a.devices);
  return command;
}

/// A recipe as to_toml() writes it, without the keys that nobody has set unless `all`. Where they were set
/// stands in a column behind a section's longest value.
std::string shown(const std::string& toml, bool all) {
  std::string text, section;
  std::vector<std::pair<std::string, std::string>> keys;
  std::istringstream lines(toml + "\n[");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t sign = std::min(line.rfind("  # "), line.size());
    if (line.empty() || (!all && line.ends_with("  # default"))) continue;
    if (!line.starts_with('[')) {
      keys.emplace_back(line.substr(0, line.find_last_not_of(' ', sign) + 1), line.substr(sign));
      continue;
    }
    std::size_t widest = 36;
    for (const auto& [key, origin] : keys) widest = std::max(widest, origin.empty() ? 0 : key.size());
    if (!keys.empty() || section.starts_with("\n[[")) text += section;
    for (const auto& [key, origin] : keys)
      text += fmt::format("{:<{}}{}\n", key, origin.empty() ? 0 : widest, origin);
    section = "\n" + line + "\n", keys.clear();
  }
  return text;
}

Value numbers_of(const RunPlan& plan) {
  Value json = object();
  for (const char* key :
       {"train_tokens", "validation_tokens", "vocabulary", "epochs", "validation_windows", "validation_share",
        "parameters", "memory_needed_bytes", "memory_capacity_bytes", "step_flops", "step_bf16_flops",
        "step_integer_ops", "strand_gradient_bytes", "checkpoint_bytes", "disk_to_start_bytes",
        "disk_needed_bytes", "disk_free_bytes", "device"})
    if (const auto found = plan.numbers.find(key); found != plan.numbers.end())
      put(json, key, found->second);
    else if (std::string_view(key) != "strand_gradient_bytes")  // of runs with several strands
      put(json, key, Value(nullptr, "not known, as a problem or a note says"));
  return json;
}

/// What the run would begin with, which it sees when it has loaded it.
std::optional<Value> initial_weights(RunPlan& plan) {
  std::optional<Value> seen;
  if (const auto& weights = plan.begin.weights)
    plan.look([&] {
      const std::string hash = weights->content_hash(plan.recipe.model);
      plan.fact("init        {}, content hash {}", weights->text(), hash);
      seen = object("weights", weights->text(), "hash", hash);
    });
  return seen;
}

/// What a step of each phase really multiplied.
std::optional<Value> traced(RunPlan& plan) {
  if (!plan.problems.empty()) return {};
  plan.device.reset();  // the trace has its own
  const TraceReport trace = trace_recipe(plan.recipe);
  for (const auto& line : trace.differences)
    plan.problems.emplace_back(ExitCode::internal, "what ran is not what was asked for: " + line);
  if (trace.differences.empty()) plan.fact("traced      {} ran as the table says", trace.text());
  return object("phases", trace.phases, "gemms", trace.gemms, "attentions", trace.attentions, "differences",
                trace.differences);
}

Report run(Arguments& a, const Given& given) {
  take_rest(a.words, given);
  RunPlan plan(a.words);
  plan.rehearses = true;
  plan.devices = a.devices;
  plan_through(plan, Station::recipe);
  const std::string command = command_of(a);
  Report out;
  out.line("# {}, with everything that it extends and overrides{}\n{}", title(a),
           a.all ? "" : "; --all shows the defaults too", shown(to_toml(plan.recipe), a.all));
  out.put("recipe", title(a), "keys", recipe_json(plan.recipe));
  out.show(given.json);
  plan_through(plan, Station::settled);  // a checkpoint may decide on compute.gemm
  out.line("precision: what was asked for, and what is planned to multiply it here\n{}",
           precision_table(plan.recipe));
  out.put("precision", precision_json(plan.recipe));
  plan_through(plan);
  if (plan.begin.finished)
    plan.notes.push_back(fmt::format("all {} steps of {} are done: nothing is left to train",
                                     plan.recipe.train.steps, plan.begin.file->string()));
  const auto init = initial_weights(plan), trace = a.trace ? traced(plan) : std::nullopt;
  for (const auto& fact : plan.facts) out.line("{}", fact);
  for (const auto& note : plan.notes) out.line("note: {}", note);
  if (plan.problems.empty()) out.line("ready: {}", command);
  out.put("numbers", numbers_of(plan));
  if (plan.shares) out.put("devices", value_of(*plan.shares));
  Table problems("code; kind; message");
  for (const Error& problem : plan.problems)
    problems.row(int(problem.code()), name_of(problem.code()), problem.what());
  out.put("notes", plan.notes, "problems", problems, "ready", plan.problems.empty(), "command", command);
  if (init) out.put("init", *init);
  if (plan.branch) out.put("branch", parsed(plan.branch->turn.to_json()));
  if (trace) out.put("traced", *trace);
  out.problems = plan.problems;
  return out;
}

Options options(Arguments& a) {
  Options rows = run_options(a.words);
  rows.insert(rows.end(),
              {{"--all", &a.all, "print the keys with their default, too"},
               {"--trace", &a.trace,
                "train one step of each phase on random tokens, and compare what was multiplied with the "
                "precision table"},
               {"--devices", &a.devices,
                "so many processes share the run: what each needs, and what they send (docs/devices.md)",
                within(1, 4096)}});
  return rows;
}

}  // namespace

Command commands::check() {
  return {"check", "Print a recipe resolved, its precision table, memory and disk, and what would fail later",
          with(options, run),
          "Every key of a recipe is an option too: --section.key=value (mxtape recipes --reference).", true};
}

}  // namespace mxtape
