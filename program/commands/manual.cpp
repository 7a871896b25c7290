#include <fmt/ranges.h>

#include "program/commands/exit_code_names.h"
#include "program/show/command.h"
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
    if (c == '\\' || c == '-') out += '\\';
    out += c == '\\' ? 'e' : c;
  }
  return out;
}

/// An item of a list: what it is called, in bold, and what it does.
std::string item(const std::string& name, const std::string& value, const std::string& text) {
  const std::string taken = value.empty() ? "" : "\\fI" + escaped(value);
  return fmt::format(".TP\n\\fB{}{}\\fR\n{}\n", escaped(name), taken, escaped(text));
}

std::string section(std::string_view name) { return fmt::format(".SH {}\n", name); }

std::string item(const Option& row) {
  const std::string value = row.default_text();
  return item(row.by_place() ? row.key() : shown_name(row), value_of(row),
              row.help + (value.empty() ? "" : fmt::format(" (default: {})", value)));
}

std::string commands_section() {
  std::string out = section("COMMANDS");
  for (const Command& command : all_commands()) {
    out += fmt::format(".SS {0}\n.B mxtape {0}\n", escaped(command.name));
    std::string items;
    for (const Option& row : command.bind().options) {
      items += item(row);
      if (!row.by_place()) continue;
      const std::string name = "\\fI" + escaped(row.key()) + "\\fR" + (row.is_list() ? " ..." : "");
      out += row.name[0] == '[' ? "[" + name + "]\n" : name + "\n";
    }
    out += fmt::format("[\\fIoptions\\fR]\n.PP\n{}.\n{}", escaped(command.help), items);
    if (!command.footer.empty()) out += ".PP\n" + escaped(command.footer) + "\n";
  }
  return out;
}

std::string keys() {
  std::vector<std::string> takers;
  for (const Command& command : all_commands())
    if (command.takes_keys) takers.push_back("\\fB" + escaped(command.name) + "\\fR");
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

std::string manual() {
  std::string out = fmt::format(".TH MXTAPE 1 \"\" \"mxtape {}\" \"User Commands\"\n", MXTAPE_VERSION);
  out += section("NAME") + "mxtape \\- train GPT models in microscaling (MX) number formats\n";
  out += section("SYNOPSIS") + ".B mxtape\n\\fIcommand\\fR [\\fIoperands\\fR] [\\fIoptions\\fR]\n";
  out += section("DESCRIPTION") +
         "A recipe, a TOML file, says what is trained on which data, and to which number format each operand "
         "of each\nmatrix product is rounded. \\fBmxtape train\\fR trains it; the other commands make its "
         "data, check it, and\nlook at what came out.\n";
  out += section("OPTIONS") + item("-h, --help", "", help_help) + item("-V, --version", "", version_help);
  out +=
      ".PP\n\\fB\\-h\\fR is an option of every command; \\fBmxtape help\\fR \\fIcommand\\fR says the same.\n";
  out += commands_section() + keys() + recipes();
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

struct Arguments {};

Options options(Arguments&) { return {}; }

void run(const Arguments&) { fmt::print("{}", manual()); }

}  // namespace

Command commands::manual() {
  return {"manual", "Print the manual page mxtape(1) for man", with(options, run),
          "To read it: mxtape manual | man -l -"};
}

}  // namespace mxtape
