#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace mxtape {

/// From now on a reader that goes away, as in `mxtape train ... | head`, ends the program no more: what is
/// written to it fails with EPIPE. For commands that have more to do than to print.
void outlive_readers();

/// Writes and flushes. Once the reader is gone, what is written to `out` goes nowhere. Another failure, such
/// as a full disk, stays in ferror(out), which main() reports at the end.
void write_out(std::FILE* out, std::string_view text);

template <class... Args>
void say(std::FILE* out, fmt::format_string<Args...> text, Args&&... args) {
  write_out(out, fmt::format(text, std::forward<Args>(args)...));
}

/// How a command line names standard input.
inline constexpr std::string_view standard_input = "-";

/// As messages and the token file's source call it.
std::string shown_name(const std::string& path);

/// The bytes of a file, or of standard input. Throws Error as read_whole.
std::string read_input(const std::string& path);

}  // namespace mxtape
