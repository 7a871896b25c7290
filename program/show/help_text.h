#pragma once
#include <string>

#include "program/show/command.h"

namespace mxtape {

/// "  --jobs N      runs at a time ...": a text in lines of 80 columns, from column `indent` on.
std::string help_item(const std::string& name, const std::string& text, std::size_t indent);
/// The commands and what each does.
std::string list_of_commands();

/// What an option takes: " N", " X", " TEXT", " {cols,rows}"; empty for a flag and a positional.
std::string value_of(const Option&);
/// "-o, --out"; by its place "FILE ...", if it takes several.
std::string shown_name(const Option&);

inline constexpr const char* help_help = "Print this help message and exit";
inline constexpr const char* version_help =
    "Version, commit, compiler and libraries; with --json after it as JSON";
/// What --help prints of a command; of the program.
std::string help_of(const Command&, const Options&);
std::string help_of_program();

}  // namespace mxtape
