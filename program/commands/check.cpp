#include <sstream>
#include <utility>

#include "core/text/program_name.h"
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

/// What a step of each phase really multiplied, if that was asked for and the model is known.
std::optional<TraceReport> trace_if(bool wanted, const Recipe& recipe, CheckReport& report) {
  if (!wanted || !report.problems.empty()) return {};
  Recipe known = recipe;
  known.model.vocabulary = report.vocabulary ? report.vocabulary : recipe.model.vocabulary;
  TraceReport trace = trace_recipe(known);
  for (const auto& line : trace.differences)
    report.problems.emplace_back(ExitCode::internal, "what ran is not what was asked for: " + line);
  return trace;
}

struct Arguments {
  RunWords words{};
  bool all = false;  ///< keys
  bool trace = false;
  int devices = 0;  ///< 0: not said
};

/// What is checked: the recipe, or a branch without one.
std::string title(const Arguments& options) {
  return options.words.recipe.empty() ? "--from " + options.words.from.from : options.words.recipe;
}

/// What trains it.
std::string command_of(const Arguments& a) {
  const RunOptions& run = a.words.options;
  std::string command = run.command;
  if (!run.resume.empty()) command += " --resume " + shell_quoted(run.resume);
  if (a.devices > 0) command += fmt::format(" --devices {}", a.devices);
  return command;
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

Value numbers_of(const CheckReport& report) {
  Value json = object();
  for (const char* key :
       {"train_tokens", "validation_tokens", "vocabulary", "epochs", "validation_windows", "validation_share",
        "parameters", "memory_needed_bytes", "memory_capacity_bytes", "step_flops", "step_bf16_flops",
        "step_integer_ops", "strand_gradient_bytes", "checkpoint_bytes", "disk_to_start_bytes",
        "disk_needed_bytes", "disk_free_bytes", "device"})
    if (const auto found = report.numbers.find(key); found != report.numbers.end())
      put(json, key, found->second);
    else if (std::string_view(key) != "strand_gradient_bytes")  // of runs with several strands
      put(json, key, Value(nullptr, "not known, as a problem or a note says"));
  return json;
}

Report run(Arguments& a, const Given& given) {
  const Recipe recipe = wanted_recipe(a.words, given);
  const std::string command = command_of(a);
  const std::string keys = to_toml(recipe);
  Report out;
  out.line("# {}, with everything that it extends and overrides{}\n{}", title(a),
           a.all ? "" : "; --all shows the defaults too", a.all ? keys : without_defaults(keys));
  out.line("precision: what was asked for, and what is planned to multiply it here\n{}",
           precision_table(recipe));
  out.show(given.json);
  CheckReport report = check_run(recipe, a.words.options, a.devices);
  const auto trace = trace_if(a.trace, recipe, report);
  for (const auto& fact : report.facts) out.line("{}", fact);
  if (trace && trace->differences.empty()) out.line("traced      {} ran as the table says", trace->text());
  for (const auto& note : report.notes) out.line("note: {}", note);
  if (report.problems.empty()) out.line("ready: {}", command);
  out.put("recipe", title(a), "keys", recipe_json(recipe), "precision", precision_json(recipe), "numbers",
          numbers_of(report));
  if (report.devices) out.put("devices", value_of(*report.devices));
  Table problems("code; kind; message");
  for (const Error& problem : report.problems)
    problems.row(int(problem.code()), name_of(problem.code()), problem.what());
  out.put("notes", report.notes, "problems", problems, "ready", report.problems.empty(), "command", command);
  if (!report.weights_hash.empty())
    out.put("init", object("weights", report.weights, "hash", report.weights_hash));
  if (const auto& branch = a.words.options.branch) out.put("branch", parsed(branch->turn.to_json()));
  if (trace)
    out.put("traced", object("phases", trace->phases, "gemms", trace->gemms, "attentions", trace->attentions,
                             "differences", trace->differences));
  out.problems = report.problems;
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
