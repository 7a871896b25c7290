#include "program/show/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

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

}  // namespace mxtape
