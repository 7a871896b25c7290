#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "dist/pairs/pair_group.h"
#include "dist/together.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::test {

/// A run of ranks as the program starts them, whose rank 0 is a fork of the test and ends with the code that
/// the program would end with. A test must have no other threads.
class ForkedRanks {
 public:
  using Work = std::function<void(PairGroup&)>;

  ForkedRanks(int size, const Work& work, double timeout = 20) {
    process_ = ::fork();
    if (process_ == 0) ::_exit(run(size, work, timeout));
  }
  ~ForkedRanks() {
    if (process_ > 0) ::kill(process_, SIGKILL), wait();
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  pid_t process() const { return process_; }  ///< of rank 0
  /// Rank 0's exit code, 128 + the signal for one that has ended it.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// What all of them printed.
  std::string output() const {
    std::stringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  int times(const std::string& part) const {
    const std::string text = output();
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

 private:
  std::string file() const { return (folder_ / "output").string(); }
  int run(int size, const Work& work, double timeout) const {
    const int to = ::open(file().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(to, STDOUT_FILENO);
    ::dup2(to, STDERR_FILENO);
    PairGroup group(fork_ranks(size), timeout);
    try {
      work(group);
    } catch (const SaidElsewhere& e) {
      return int(e.code());
    } catch (const Error& e) {
      group.abandon(e.code(), e.what());
    }
    std::fflush(nullptr);
    return 0;
  }

  const TemporaryFolder folder_;
  pid_t process_ = -1;
};

}  // namespace mxtape::test
