#include "program/show/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "core/files/atomic_file.h"

namespace mxtape {

void outlive_readers() { std::signal(SIGPIPE, SIG_IGN); }

void write_out(std::FILE* out, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0) return;
  if (errno != EPIPE) return;
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  ::dup2(nowhere, ::fileno(out));
  ::close(nowhere);
  std::clearerr(out);
}

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
