#include "program/sweep/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/error.h"
#include "core/files/descriptor.h"
#include "core/memory/resident.h"

namespace mxtape {
namespace {

constexpr int cannot_start = 127;

/// After fork(): only what signal-safety(7) allows.
[[noreturn]] void become(char* const* argv, int log, pid_t parent) {
  ::setpgid(0, 0);
  // Sent once for each thread of the parent, as they end one by one: a second SIGTERM would stop the run at
  // once.
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (::getppid() != parent) ::_exit(cannot_start);  // it had ended before
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv("/proc/self/exe", argv);
  ::_exit(cannot_start);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words, const std::filesystem::path& log) {
  std::error_code error;
  std::filesystem::create_directories(log.parent_path(), error);
  const Descriptor file(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
  require(bool(file), ExitCode::resource, "{}: cannot be written: {}", log.string(), std::strerror(errno));
  std::vector<char*> argv{const_cast<char*>("mxtape")};
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  floor_ = most_resident_bytes();
  process_ = ::fork();
  if (process_ == 0) become(argv.data(), file.number(), parent);
  require(process_ > 0, ExitCode::resource, "no process can be started for a run: {}", std::strerror(errno));
}

ChildProcess::~ChildProcess() {
  if (process_ <= 0) return;
  stop();
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

std::optional<ChildProcess::End> ChildProcess::poll() {
  int status = 0;
  struct rusage usage {};
  if (const std::int64_t now = most_resident_bytes(process_)) peak_ = now;  // 0: it has ended
  if (::wait4(process_, &status, WNOHANG, &usage) != process_) return {};
  process_ = -1;
  if (const std::int64_t all = std::int64_t{1024} * usage.ru_maxrss; all > floor_) peak_ = all;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  return End{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), double(peak_) / 0x1p20,
             seconds};
}

void ChildProcess::stop() const { ::kill(process_, SIGTERM); }

}  // namespace mxtape
