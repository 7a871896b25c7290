#pragma once
#include <sys/wait.h>

#include <cstdio>
#include <functional>

#include "dist/group.h"
#include "tests/support/ranks/mail.h"

namespace mxtape::test {

/// The host plane of a rank that is a process of its own, forked by a test.
class ForkedGroup final : public Group {
 public:
  ForkedGroup(int rank, int size, std::vector<int> sockets) : mail_(std::move(sockets)) {
    place_.rank = rank, place_.size = size, place_.host = "fork";
    place_.local_rank = rank, place_.local_size = size;
  }
  const Place& place() const override { return place_; }
  std::string description() const override { return "forks"; }
  std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) override {
    std::vector<std::string> all(std::size_t(place_.size));
    for (int rank = 0; rank < place_.size; ++rank)
      if (rank != place_.rank) mail_.post(rank, mine.data(), mine.size());
    all[std::size_t(place_.rank)] = mine;
    for (int rank = 0; rank < place_.size; ++rank) {
      if (rank == place_.rank) continue;
      for (;;) {
        mail_.pump();
        if (auto message = mail_.take(rank)) {
          all[std::size_t(rank)] = std::move(*message);
          break;
        }
        if (mail_.gone(rank)) throw Error(ExitCode::peer, fmt::format("rank {} is gone", rank));
        ::usleep(20);
      }
    }
    while (!mail_.flushed()) mail_.pump();
    return all;
  }
  [[noreturn]] void abandon(ExitCode code, std::string_view why) noexcept override {
    std::fprintf(stderr, "rank %d: %.*s\n", place_.rank, int(why.size()), why.data());
    std::fflush(nullptr);
    ::_exit(int(code));
  }

 private:
  Place place_;
  Mail mail_;
};

/// How a rank ended.
struct RankEnd {
  int code = -1;     ///< its exit code; 128 + signal
  std::string said;  ///< what it printed
};

/// Runs work(group, sockets of another plane) in `size` processes. Their exit code is what it returns, or an
/// Error's, whose text is printed. A child has the thread that forks alone: this process must not compute
/// elsewhere.
inline std::vector<RankEnd> on_forks(
    int size, const std::function<int(ForkedGroup&, const std::vector<int>& sockets)>& work) {
  constexpr int planes = 2;
  std::vector<std::vector<std::vector<int>>> sockets(
      planes, std::vector<std::vector<int>>(std::size_t(size), std::vector<int>(std::size_t(size), -1)));
  for (auto& plane : sockets)
    for (std::size_t a = 0; a < plane.size(); ++a)
      for (std::size_t b = a + 1; b < plane.size(); ++b) {
        int pair[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) throw std::bad_alloc();
        plane[a][b] = pair[0], plane[b][a] = pair[1];
      }
  std::vector<pid_t> children;
  std::vector<int> pipes;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    int pipe[2];
    if (::pipe(pipe) != 0) throw std::bad_alloc();
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(pipe[1], 1), ::dup2(pipe[1], 2);
      for (auto& plane : sockets)
        for (std::size_t other = 0; other < plane.size(); ++other)
          if (int(other) != rank)
            for (const int socket : plane[other])
              if (socket >= 0) ::close(socket);
      int code = 1;
      try {
        ForkedGroup group(rank, size, sockets[0][std::size_t(rank)]);
        code = work(group, sockets[1][std::size_t(rank)]);
      } catch (const Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        code = int(e.code());
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
      }
      std::fflush(nullptr);
      ::_exit(code);
    }
    ::close(pipe[1]);
    children.push_back(child), pipes.push_back(pipe[0]);
  }
  for (auto& plane : sockets)
    for (auto& row : plane)
      for (const int socket : row)
        if (socket >= 0) ::close(socket);
  std::vector<RankEnd> ends(children.size());
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    char piece[4096];
    for (ssize_t got = 0; (got = ::read(pipes[rank], piece, sizeof piece)) > 0;)
      ends[rank].said.append(piece, std::size_t(got));
    ::close(pipes[rank]);
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    ends[rank].code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return ends;
}

}  // namespace mxtape::test
