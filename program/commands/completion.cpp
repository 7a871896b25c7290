#include <fmt/ranges.h>

#include "formats/quantizer.h"
#include "program/show/command.h"
#include "recipes/knobs.h"
#include "recipes/shipped.h"

namespace mxtape {
namespace {

using Words = std::vector<std::string>;

/// What does not depend on the tables. Words that are no option's value are operands: recipes where a command
/// takes them, and files, which bash completes itself (complete -o default).
constexpr std::string_view function_text = R"bash(
_mxtape() {
  local cur=${COMP_WORDS[COMP_CWORD]} option="" command="" i
  # Bash splits --option=value into three words.
  if [[ $cur == "=" ]]; then
    option=${COMP_WORDS[COMP_CWORD-1]} cur=""
  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == "=" ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == -* ]]; then
    option=${COMP_WORDS[COMP_CWORD-1]}
  fi
  COMPREPLY=()
  [[ $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]}
  if [[ -z $command ]]; then
    _mxtape_offer "$_mxtape_commands help $(_mxtape_options '')"
    return
  fi
  if [[ $command == help ]]; then
    _mxtape_offer "$_mxtape_commands"
    return
  fi
  if [[ $option == --* ]]; then
    _mxtape_values "$command" "$option" && return
  fi
  if [[ $cur == -* ]]; then
    _mxtape_offer "$(_mxtape_options "$command")"
    return
  fi
  case $command in
    train|check) _mxtape_offer "$_mxtape_recipes"; _mxtape_files '*.toml' ;;
    sweep) _mxtape_files '*.toml' ;;
    recipes) _mxtape_offer "$_mxtape_recipes" ;;
    completion) _mxtape_offer bash ;;
    tokenizer) [[ $COMP_CWORD -eq 2 ]] && _mxtape_offer "train encode decode" ;;
  esac
}

# Of these words those that begin with what is typed. The cursor stays behind a key's "=".
_mxtape_offer() {
  local word
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$1" -- "$cur")
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}

_mxtape_files() {
  local word
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$cur"; compgen -f -X "!$1" -- "$cur")
  compopt -o filenames 2>/dev/null
  return 0
}

complete -o default -F _mxtape mxtape
)bash";

Words format_names() {
  Words names;
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  for (const NamedFormat& row : element_formats) names.emplace_back(row.name);
  return names;
}

/// What may follow an option; empty: a file or a number.
Words values_of(const Option& option) {
  const std::string name = option.key();
  if (name == "--device") return {"cpu", "cuda"};
  if (name == "--resume") return {"auto", "no"};
  Words words = split(option.limits.words);
  if (name == "--format" || name == "--precision") words = format_names();
  if (name == "--precision") words.emplace_back("recipe");
  return words;
}

Words values_of(const Knob& knob) {
  if (const auto* choice = std::get_if<Choice>(&knob.field))
    return {choice->names.begin(), choice->names.end()};
  if (std::holds_alternative<bool*>(knob.field)) return {"true", "false"};
  if (knob.name == "compute.device") return {"cpu", "cuda"};
  return knob.name.starts_with("precision.") ? format_names() : Words{};
}

std::string option_words(const Options& rows) {
  std::string words = "-h --help";
  for (const Option& row : rows)
    if (!row.by_place())
      for (const char c : " " + row.name) words += c == ',' ? ' ' : c;
  return words;
}

std::string variable(const char* name, const Words& words) {
  return fmt::format("{}='{}'\n", name, fmt::join(words, " "));
}

std::string completion() {
  Recipe recipe;
  Words commands, recipes, keys;
  for (const Command& command : all_commands()) commands.emplace_back(command.name);
  for (const auto& shipped : shipped_recipes()) recipes.emplace_back(shipped.name);
  for (const Knob& knob : knobs(recipe)) keys.push_back(fmt::format("--{}=", knob.name));
  std::string script =
      "# Completion of mxtape's commands, options, recipe keys and shipped recipes for bash.\n";
  script += variable("_mxtape_commands", commands) + variable("_mxtape_recipes", recipes) +
            variable("_mxtape_keys", keys);

  script += "\n_mxtape_options() {\n  case $1 in\n";
  script += "    '') echo '-h --help -V --version' ;;\n";
  for (const Command& command : all_commands())
    script += fmt::format("    {}) echo '{}'{} ;;\n", command.name, option_words(command.bind().options),
                          command.takes_keys ? " \"$_mxtape_keys\"" : "");
  script += "  esac\n}\n";

  script +=
      "\n# The values of an option or key; fails if it takes none that can be listed.\n"
      "_mxtape_values() {\n  case \"$1 $2\" in\n";
  for (const Command& command : all_commands()) {
    const auto offer = [&](const std::string& name, const Words& words) {
      if (!words.empty())
        script +=
            fmt::format("    '{} {}') _mxtape_offer '{}' ;;\n", command.name, name, fmt::join(words, " "));
    };
    for (const Option& row : command.bind().options) offer(row.key(), values_of(row));
    if (!command.takes_keys) continue;
    for (const Knob& knob : knobs(recipe)) offer(fmt::format("--{}", knob.name), values_of(knob));
  }
  script += "    *) return 1 ;;\n  esac\n}\n";
  return script += function_text;
}

struct Arguments {
  std::string shell;
};

Options options(Arguments& a) {
  return {{"shell", &a.shell, "bash: the one there is a script for", one_of("bash")}};
}

void run(const Arguments&) { fmt::print("{}", completion()); }

}  // namespace

Command commands::completion() {
  return {"completion", "Print a script that completes mxtape's words in a shell", with(options, run),
          "To use it now: source <(mxtape completion bash)"};
}

}  // namespace mxtape
