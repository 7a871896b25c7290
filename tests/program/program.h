#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace mxtape::test {

/// In a child process, before it becomes the program: signals as a shell's foreground job has them, but for
/// those that are to be `ignored`. Tests that are started under nohup, or in the background, inherit others.
inline void set_signals(const std::vector<int>& ignored = {}) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2})
    std::signal(signal, SIG_DFL);
  for (const int signal : ignored) std::signal(signal, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// The mxtape program (or another `file`), run as a user would: by the word `mxtape`, in a folder, with
/// arguments; stdout and stderr go to one file there.
class Program {
 public:
  Program(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
          const std::vector<int>& ignored_signals = {}, const std::string& file = MXTAPE_PROGRAM)
      : output_(folder / "output.txt") {
    std::filesystem::remove(output_);  // printed() must not see an earlier run's
    child_ = ::fork();
    if (child_ != 0) return;
    const int to = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(to, STDOUT_FILENO);
    ::dup2(to, STDERR_FILENO);
    set_signals(ignored_signals);
    std::vector<char*> argv{const_cast<char*>("mxtape")};
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    if (::chdir(folder.c_str()) == 0) ::execv(file.c_str(), argv.data());
    ::_exit(127);
  }
  ~Program() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    wait();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// The exit code, or 128 + the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid() const { return child_; }
  void send(int signal) { ::kill(child_, signal); }
  bool running() const {
    siginfo_t info{};
    return ::waitid(P_PID, id_t(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }

  std::string output() const {
    std::stringstream text;
    text << std::ifstream(output_).rdbuf();
    return text.str();
  }
  /// Waits until the output holds `text`; false if the program ended before.
  bool printed(const std::string& text) const {
    while (output().find(text) == std::string::npos) {
      if (!running()) return output().find(text) != std::string::npos;
      ::usleep(1000);
    }
    return true;
  }

 private:
  std::filesystem::path output_;
  pid_t child_ = -1;
};

/// How the program ended, and what it printed.
struct Result {
  int code;
  std::string output;
};
inline Result run_program(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                          const std::string& file = MXTAPE_PROGRAM) {
  Program program(folder, arguments, {}, file);
  const int code = program.wait();
  return {code, program.output()};
}
/// What `sample` printed but for the last line, which says how fast it was.
inline std::string without_times(const std::string& output) {
  const auto last = output.rfind("\nmxtape: prompt ");
  return last == std::string::npos ? output : output.substr(0, last + 1);
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mxtape::test
