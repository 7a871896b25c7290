#pragma once
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dist/sockets/socket.h"

namespace mxtape {

/// The first bytes that a process of a run sends on a new connection. Of one size, so that nothing of an
/// unknown sender decides how much is read.
struct Hello {
  std::array<char, 8> magic{'m', 'x', 't', 'a', 'p', 'e', '1', '\n'};
  std::uint64_t token = 0;
  std::int32_t rank = 0, size = 0;
  std::int32_t port = 0;  ///< where the sender listens
  std::array<char, 68> host{};

  Hello() = default;
  Hello(std::uint64_t token, int rank, int size, int port, std::string_view host);
  std::string host_name() const;
};
static_assert(std::is_trivially_copyable_v<Hello> && sizeof(Hello) == 96);

/// A listener, and those who have connected and not yet said who they are. Who does not send a Hello within
/// seconds, or one of another run, is dropped.
class Door {
 public:
  struct Guest {
    Socket socket;
    Hello hello;
    Address from;
  };
  Door(Socket listener, std::uint64_t token) : listener_(std::move(listener)), token_(token) {}

  int port() const { return own_address(listener_).port(); }
  /// The next one who has this run's token; waits for at most so long.
  std::optional<Guest> next(int milliseconds);
  /// "", or "; refused 2 connections that are not of this run, the last from 10.0.0.3".
  std::string refused() const;

 private:
  struct Pending {
    Guest guest;
    std::int64_t read = 0;
    std::chrono::steady_clock::time_point until;
  };
  void let_in();
  /// Drops the one who has been silent longest, if no more can be let in. `all`: what poll() has found of the
  /// listener and of the pending ones.
  void make_room(const std::vector<pollfd>& all);
  /// Whether it stays: not ended, not late.
  bool listen_to(Pending&);
  void refuse(const Pending&);

  Socket listener_;
  std::uint64_t token_;
  std::vector<Pending> pending_;
  std::optional<Guest> known_;
  int refused_ = 0;
  std::string last_refused_;
};

}  // namespace mxtape
