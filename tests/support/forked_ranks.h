#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "dist/sockets/socket_communicator.h"
#include "dist/together.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::test {

/// Where processes of a test meet: on this host, by a token that no other test has.
inline Rendezvous test_rendezvous(const std::string& host = "") {
  static std::uint64_t count = 0;
  const std::uint64_t token = (std::uint64_t(::getpid()) << 32) + ++count;
  return {.host = host,
          .first_port = 20480 + int(token * 2654435761u % 700) * 16,
          .token = token,
          .one_host = true};
}

/// Ranks of a socket group, each a process of its own that ends with the code that the program would end
/// with. A test must have no other threads.
class ForkedRanks {
 public:
  using Work = std::function<void(SocketGroup&)>;

  ForkedRanks() = default;
  ~ForkedRanks() {
    for (const Child& child : children_)
      if (child.pid > 0)
        ::kill(child.pid, SIGKILL), ::kill(child.pid, SIGCONT), ::waitpid(child.pid, nullptr, 0);
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  /// One more process; `work` runs once it has met the others.
  void start(const Place& place, const Rendezvous& at, double timeout, const Work& work) {
    const std::string file = (folder_ / std::to_string(children_.size())).string();
    const pid_t pid = ::fork();
    children_.push_back({pid, file});
    if (pid != 0) return;
    const int to = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(to, STDOUT_FILENO);
    ::dup2(to, STDERR_FILENO);
    ::_exit(run(place, at, timeout, work));
  }
  void start_all(int size, const Work& work, double timeout = 20, const Rendezvous& at = test_rendezvous()) {
    for (int rank = 0; rank < size; ++rank)
      start({.rank = rank, .size = size, .host = {}, .launcher = {}}, at, timeout, work);
  }
  pid_t pid(int child) const { return children_[std::size_t(child)].pid; }
  /// Exit codes, 128 + the signal for those that one has ended.
  std::vector<int> wait() {
    std::vector<int> codes;
    for (Child& child : children_) {
      int status = 0;
      ::waitpid(child.pid, &status, 0);
      child.pid = -1;
      codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    return codes;
  }
  std::string output(int child) const {
    std::stringstream text;
    text << std::ifstream(children_[std::size_t(child)].file).rdbuf();
    return text.str();
  }
  std::string output() const {
    std::string all;
    for (std::size_t i = 0; i < children_.size(); ++i) all += output(int(i));
    return all;
  }

 private:
  struct Child {
    pid_t pid;
    std::string file;
  };
  static int run(const Place& place, const Rendezvous& at, double timeout, const Work& work) {
    try {
      SocketGroup group(place, at, timeout);
      try {
        work(group);
      } catch (const Told&) {
        throw;
      } catch (const Error& e) {
        group.abandon(e.code(), e.what());
      }
    } catch (const Told& e) {
      return int(e.code());
    } catch (const Error& e) {
      std::fprintf(stderr, "rank %d: %s\n", place.rank, e.what());
      std::fflush(nullptr);
      return int(e.code());
    }
    std::fflush(nullptr);
    return 0;
  }

  const TemporaryFolder folder_;
  std::vector<Child> children_;
};

}  // namespace mxtape::test
