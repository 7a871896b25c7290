#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace mxtape {

/// "  --jobs N      runs at a time ...": a text in lines of 80 columns, from column `indent` on.
std::string help_item(const std::string& name, const std::string& text, std::size_t indent);

/// What an option takes: " N", " X", " TEXT", " {cols,rows}"; empty for a flag and a positional.
std::string value_of(const CLI::Option&);

/// What --help prints, in CLI11's order: lines of 80 columns; ranges and defaults in words, behind what an
/// option does.
class HelpText : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option*, bool is_positional) const override;
  std::string make_subcommand(const CLI::App*) const override;
  std::string make_description(const CLI::App*) const override;
  std::string make_footer(const CLI::App*) const override;
};

}  // namespace mxtape
