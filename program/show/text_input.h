#pragma once
#include <string>
#include <string_view>

namespace mxtape {

/// How a command line names standard input.
inline constexpr std::string_view standard_input = "-";

/// As messages and the token file's source call it.
std::string shown_name(const std::string& path);

/// The bytes of a file, or of standard input. Throws Error as read_whole.
std::string read_input(const std::string& path);

}  // namespace mxtape
