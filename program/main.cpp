#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "core/current_error.h"
#include "core/text/program_name.h"
#include "core/text/short_lines.h"
#include "dist/together.h"
#include "program/run/stop_signals.h"
#include "program/show/command_line.h"

namespace mxtape {
namespace {

/// Where both go to one file, what was printed stands before it. An unfinished file is called as it would be.
void complain(std::string why) {
  const std::string unfinished = fmt::format(".tmp.{}", ::getpid());
  for (auto at = why.find(unfinished); at != why.npos; at = why.find(unfinished, at))
    why.erase(at, unfinished.size());
  std::fflush(stdout);
  std::fprintf(stderr, "mxtape: %s\n", with_short_lines(why).c_str());
}

/// A closed descriptor would be given to the next file that is opened, and what is printed would go into that
/// file. Opened like this, writing to it fails instead.
void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) (void)!::open("/dev/null", O_RDONLY);
}

/// All that was printed has arrived, or this is an Error: on a full disk the text is lost at the last moment.
void finish_output() {
  const bool failed = std::fflush(stdout) != 0;
  require(!failed && !std::ferror(stdout), ExitCode::resource,
          "standard output: cannot be written{}; what was printed is not whole",
          failed ? fmt::format(": {}", std::strerror(errno)) : "");
}

}  // namespace
}  // namespace mxtape

/// The `mxtape` program: one command per file of commands/. Exit codes: docs/exit_codes.md.
int main(int argc, char** argv) {
  using namespace mxtape;
  open_standard_streams();
  if (argc > 0) set_program_name(argv[0]);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error to report, as a full disk is
  leave_no_unfinished_file();
  try {
    run_command_line(argc, argv);
    finish_output();
  } catch (const SaidElsewhere& e) {
    return int(e.code());
  } catch (const std::exception& e) {
    const Error error = current_error();
    // {fmt} reports a failed write without the name of what it wrote to.
    const bool printing = dynamic_cast<const std::system_error*>(&e) && std::ferror(stdout);
    complain((printing ? "standard output: " : "") + std::string(error.what()));
    return int(error.code());
  }
  return 0;
}
