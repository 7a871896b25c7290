#include <fmt/format.h>
#include <fmt/ranges.h>

#include "program/command.h"
#include "program/exit_code_names.h"
#include "program/help_text.h"
#include "recipes/knobs.h"
#include "recipes/shipped.h"

namespace mxtape {
namespace {

/// A text as roff prints it: no letter in it is a request. Dashes stay the ones that a shell takes.
std::string escaped(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

/// An item of a list: what it is called, in bold, and what it does.
std::string item(const std::string& name, const std::string& value, const std::string& text) {
  const std::string taken = value.empty() ? "" : "\\fI" + escaped(value);
  return fmt::format(".TP\n\\fB{}{}\\fR\n{}\n", escaped(name), taken, escaped(text));
}

std::string section(std::string_view name) { return fmt::format(".SH {}\n", name); }

std::string text_of(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += fmt::format(" (default: {})", option.get_default_str());
  return text;
}

std::string synopsis(const CLI::App& command) {
  std::string line = fmt::format(".B mxtape {}\n", escaped(command.get_name()));
  for (const auto* option : command.get_options())
    if (option->get_positional()) {
      const std::string name = "\\fI" + escaped(option->get_name()) + "\\fR";
      const std::string more = option->get_items_expected_max() > 1 ? " ..." : "";
      line += option->get_required() ? name + more + "\n" : "[" + name + more + "]\n";
    }
  return line + "[\\fIoptions\\fR]\n";
}

/// "-h, --help"
std::string names_of(const CLI::Option& option) {
  return fmt::format("{}", fmt::join(CLI::detail::split(option.get_name(false, true), ','), ", "));
}

std::string options(const CLI::App& command) {
  std::string out;
  for (const auto* option : command.get_options())
    if (option != command.get_help_ptr() || !command.get_parent())  // said once
      out += item(names_of(*option), value_of(*option), text_of(*option));
  return out;
}

std::string commands(const CLI::App& app) {
  std::string out = section("COMMANDS");
  for (const auto* command : app.get_subcommands(nullptr)) {
    out += fmt::format(".SS {}\n{}.PP\n{}.\n", escaped(command->get_name()), synopsis(*command),
                       escaped(command->get_description()));
    out += options(*command);
    if (!command->get_footer().empty()) out += ".PP\n" + escaped(command->get_footer()) + "\n";
  }
  return out;
}

std::string keys(const CLI::App& app) {
  std::vector<std::string> takers;
  for (const auto* command : app.get_subcommands(nullptr))
    if (command->get_allow_extras()) takers.push_back("\\fB" + escaped(command->get_name()) + "\\fR");
  std::string out = section("RECIPE KEYS");
  out += fmt::format(
      "In a recipe's file as \\fIkey = value\\fR below \\fI[section]\\fR; for {} also as "
      "\\fB\\-\\-section.key=value\\fR.\n",
      fmt::join(takers, ", "));
  Recipe recipe;
  for (const Knob& knob : knobs(recipe))
    out += item(std::string(knob.name), "",
                fmt::format("{} (wants {}; default: {})", knob.help, wanted_text(knob), value_text(knob)));
  return out;
}

std::string recipes() {
  std::string out = section("SHIPPED RECIPES");
  for (const auto& shipped : shipped_recipes())
    out += item(std::string(shipped.name), "", read_recipe(std::string(shipped.name)).description);
  return out;
}

std::string manual(const CLI::App& app) {
  std::string out = fmt::format(".TH MXTAPE 1 \"\" \"mxtape {}\" \"User Commands\"\n", MXTAPE_VERSION);
  out += section("NAME") + "mxtape \\- train GPT models in microscaling (MX) number formats\n";
  out += section("SYNOPSIS") + ".B mxtape\n\\fIcommand\\fR [\\fIoperands\\fR] [\\fIoptions\\fR]\n";
  out += section("DESCRIPTION") +
         "A recipe, a TOML file, says what is trained on which data, and to which number format each operand "
         "of each\nmatrix product is rounded. \\fBmxtape train\\fR trains it; the other commands make its "
         "data, check it, and\nlook at what came out.\n";
  out += section("OPTIONS") + options(app);
  out +=
      ".PP\n\\fB\\-h\\fR is an option of every command; \\fBmxtape help\\fR \\fIcommand\\fR says the same.\n";
  out += commands(app) + keys(app) + recipes();
  out += section("EXIT STATUS");
  for (const auto& row : exit_code_names)
    out += item(fmt::format("{}", int(row.code)), "", fmt::format("{}: {}", row.name, row.meaning));
  out += section("FILES");
  out += item("runs/NAME/", "",
              "What a run writes: recipe.toml, metrics.jsonl, a TensorBoard event file, checkpoints.");
  out += section("EXAMPLES");
  out +=
      ".EX\nmxtape corpus \\-\\-out runs/demo.h5\nmxtape check demo\\-mxfp4\nmxtape train demo\\-mxfp4\n"
      "mxtape plot runs/demo\\-mxfp4\n.EE\n";
  return out;
}

}  // namespace

void add_manual_command(CLI::App& app) {
  auto* command = app.add_subcommand("manual", "Print the manual page mxtape(1) for man");
  command->footer("To read it: mxtape manual | man -l -");
  command->callback([&app] { fmt::print("{}", manual(app)); });
}

}  // namespace mxtape
