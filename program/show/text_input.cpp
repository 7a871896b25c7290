#include "program/show/text_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "core/files/atomic_file.h"

namespace mxtape {

std::string shown_name(const std::string& path) { return path == standard_input ? "standard input" : path; }

std::string read_input(const std::string& path) {
  if (path != standard_input) return read_whole_text(path);
  std::string text;
  char piece[1 << 16];
  while (const auto count = std::fread(piece, 1, sizeof piece, stdin)) text.append(piece, count);
  require(!std::ferror(stdin), ExitCode::data, "standard input: cannot be read: {}", std::strerror(errno));
  return text;
}

}  // namespace mxtape
