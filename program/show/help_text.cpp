#include "program/show/command.h"

#include <fmt/ranges.h>

#include <sstream>

namespace mxtape {
namespace {

constexpr std::size_t line_width = 80, option_column = 24, command_column = 17;

/// Words in lines, each behind `indent` blanks but for the first, which stands at column `indent` already.
std::string wrapped(const std::string& text, std::size_t indent = 0) {
  std::string out;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > line_width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ', ++column;
    }
    out += word, column += word.size();
  }
  return out + "\n";
}

/// "  --jobs N      runs at a time ...": a text in lines of 80 columns, from column `indent` on.
std::string help_item(const std::string& name, const std::string& text, std::size_t indent) {
  const std::string begin = "  " + name;
  const bool fits = begin.size() + 2 <= indent;
  return begin + (fits ? std::string(indent - begin.size(), ' ') : "\n" + std::string(indent, ' ')) +
         wrapped(text, indent);
}

std::string item_of(const Option& row) {
  std::vector<std::string> more;
  if (const std::string range = row.range_text(); !range.empty()) more.push_back(range);
  if (const std::string value = row.default_text(); !value.empty()) more.push_back("default: " + value);
  return help_item(shown_name(row) + value_of(row),
                   more.empty() ? row.help : fmt::format("{} ({})", row.help, fmt::join(more, "; ")),
                   option_column);
}

const std::string options_heading = "\nOptions:\n" + help_item("-h, --help", help_help, option_column);

}  // namespace

std::string list_of_commands() {
  std::string out;
  for (const Command& command : all_commands())
    out += help_item(std::string(command.name), command.help, command_column);
  return out;
}

std::string value_of(const Option& row) {
  if (row.by_place() || std::holds_alternative<bool*>(row.field)) return "";
  if (!row.limits.words.empty()) return fmt::format(" {{{}}}", fmt::join(split(row.limits.words), ","));
  const bool text = row.is_list() || std::holds_alternative<std::string*>(row.field);
  return text ? " TEXT" : row.is_real() ? " X" : " N";
}

std::string shown_name(const Option& row) {
  if (row.by_place()) return row.key() + (row.is_list() ? " ..." : "");
  const auto comma = row.name.find(',');
  return comma == row.name.npos ? row.name : row.name.substr(0, comma) + ", " + row.name.substr(comma + 1);
}

std::string help_of(const Command& command, const Options& options) {
  std::string usage, operands, rest;
  for (const Option& row : options) {
    if (row.by_place())
      usage += " " + (row.name[0] == '[' ? row.name : row.key() + (row.is_list() ? "..." : ""));
    (row.by_place() ? operands : rest) += item_of(row);
  }
  return wrapped(command.help) + fmt::format("Usage: mxtape {} [OPTIONS]{}\n", command.name, usage) +
         (operands.empty() ? "" : "\nPositionals:\n" + operands) + options_heading + rest + "\n" +
         (command.footer.empty() ? "" : wrapped(command.footer));
}

std::string help_of_program() {
  return "mxtape trains GPT models in microscaling (MX) formats\nUsage: mxtape [OPTIONS] SUBCOMMAND\n" +
         options_heading + help_item("-V, --version", version_help, option_column) + "\nSubcommands:\n" +
         list_of_commands() + "\n";
}

}  // namespace mxtape
