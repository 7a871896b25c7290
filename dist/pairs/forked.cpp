#include "dist/pairs/forked.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "core/error.h"

namespace mxtape {
namespace {

std::int64_t threads_of_this_process() {
  const std::filesystem::directory_iterator all("/proc/self/task"), end;
  return std::distance(all, end);
}

/// A fork of `parent` that ends with it, under a name of its own in ps and top.
void become(int rank, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(int(ExitCode::peer));  // it ended before that
  ::prctl(PR_SET_NAME, fmt::format("mxtape rank {}", rank).c_str());
}

}  // namespace

Forked fork_ranks(int size) {
  require(threads_of_this_process() == 1, "fork_ranks: this process has {} threads; want 1",
          threads_of_this_process());
  rlimit limit{};  // the ends of all pairs: 64 processes want more than the usual 1,024
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    limit.rlim_cur = limit.rlim_max, ::setrlimit(RLIMIT_NOFILE, &limit);
  std::vector<Forked> all{std::size_t(size)};
  for (Forked& f : all) f.messages.resize(all.size()), f.tensors.resize(all.size());
  all[0].processes.resize(all.size());
  std::fflush(nullptr);           // or each process would print it
  std::signal(SIGCHLD, SIG_DFL);  // ignored, it would hide how a process ended
  const pid_t parent = ::getpid();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Forked& mine = all[rank];
    mine.rank = int(rank);
    for (std::size_t other = rank + 1; other < all.size(); ++other) {
      if (rank == 0) std::tie(mine.messages[other], all[other].messages[0]) = socket_pair();
      std::tie(mine.tensors[other], all[other].tensors[rank]) = socket_pair();
    }
    if (rank == 0) continue;
    const pid_t process = ::fork();
    require(process >= 0, ExitCode::resource, "process {} of {}: {}", rank + 1, size, std::strerror(errno));
    if (process == 0) return become(int(rank), parent), std::move(mine);
    all[0].processes[rank] = process;
    mine = {};  // its ends are its own: when it ends, they end
  }
  return std::move(all[0]);
}

std::optional<std::string> end_of(pid_t process) {
  int status = 0;
  if (::waitpid(process, &status, WNOHANG) == 0) return {};
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* const name = sigabbrev_np(signal);  // real-time signals have none
  return fmt::format("was killed by {}{}",
                     name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal),
                     signal == SIGKILL ? ", by hand or as memory ran out" : "");
}

}  // namespace mxtape
