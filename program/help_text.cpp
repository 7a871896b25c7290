#include "program/help_text.h"

#include <fmt/ranges.h>

#include <sstream>

namespace mxtape {
namespace {

constexpr std::size_t line_width = 80, option_column = 24, command_column = 17;

/// Words in lines, each behind `indent` blanks but for the first, which stands at column `first`.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t first) {
  std::string out;
  std::size_t column = first;
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
  return out;
}

/// "1 to 1024" of "INT:1 to 1024"; empty where the type has no range.
std::string range_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto colon = type.find(':');
  return colon == std::string::npos || type[colon + 1] == '{' ? "" : type.substr(colon + 1);
}

}  // namespace

std::string help_item(const std::string& name, const std::string& text, std::size_t indent) {
  const std::string begin = "  " + name;
  const bool fits = begin.size() + 2 <= indent;
  return begin + (fits ? std::string(indent - begin.size(), ' ') : "\n" + std::string(indent, ' ')) +
         wrapped(text, indent, indent) + "\n";
}

std::string value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0 || option.get_positional()) return "";
  const std::string type = option.get_type_name();
  if (const auto open = type.find('{'); open != std::string::npos) return " " + type.substr(open);
  return type.starts_with("INT") || type.starts_with("UINT") ? " N"
         : type.starts_with("FLOAT")                         ? " X"
                                                             : " TEXT";
}

std::string HelpText::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = option->get_name(is_positional, !is_positional);
  if (const auto comma = name.find(','); comma != std::string::npos) name.insert(comma + 1, " ");
  if (is_positional && option->get_items_expected_max() > 1) name += " ...";
  std::vector<std::string> more;
  if (const std::string range = range_of(*option); !range.empty()) more.push_back(range);
  if (!option->get_default_str().empty()) more.push_back("default: " + option->get_default_str());
  const std::string text = option->get_description();
  return help_item(name + value_of(*option),
                   more.empty() ? text : fmt::format("{} ({})", text, fmt::join(more, "; ")), option_column);
}

std::string HelpText::make_subcommand(const CLI::App* command) const {
  return help_item(command->get_name(), command->get_description(), command_column);
}

std::string HelpText::make_description(const CLI::App* command) const {
  return wrapped(command->get_description(), 0, 0) + "\n";
}

std::string HelpText::make_footer(const CLI::App* command) const {
  const std::string text = wrapped(command->get_footer(), 0, 0);
  return text.empty() ? "" : text + "\n";
}

}  // namespace mxtape
