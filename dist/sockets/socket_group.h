#pragma once
#include <poll.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dist/group.h"
#include "dist/sockets/meeting.h"

namespace mxtape {

/// The host plane of a run over TCP: a connection between each two processes. A process that ends closes all
/// of its own, so that the others know at once; one that gives up sends its last words first, so that one
/// process says why.
class SocketGroup final : public Group {
 public:
  /// Meets the others: twice the timeout for that, as hosts may start late. `place` has rank, size and
  /// launcher. Throws what meet() does.
  SocketGroup(const Place& place, const Rendezvous&, double timeout_seconds);

  const Place& place() const override { return place_; }
  std::string description() const override { return description_; }
  std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) override;
  [[noreturn]] void abandon(ExitCode, std::string_view why) noexcept override;

  /// Other connections that are served while this process waits.
  class Connections {
   public:
    virtual ~Connections() = default;
    /// Adds what poll() shall look at.
    virtual void look_at(std::vector<pollfd>&) const = 0;
    /// Writes and reads what can be now.
    virtual void serve() = 0;
    /// Whether a connection to the rank has ended.
    virtual bool has_lost(int rank) const = 0;
  };
  /// Waits until no rank is needed any more. Throws Error(peer) for a needed rank whose connection has ended,
  /// or after the deadline for those that do not wait themselves, and Told when another process has said why
  /// the run ends.
  void wait(const std::function<std::vector<int>()>& needed, Patience, const std::string& what,
            Connections* = nullptr);
  /// One more connection to each other process. On all ranks. Empty for this one.
  std::vector<Socket> connect_again();

 private:
  void serve();
  /// The deadline has passed.
  [[noreturn]] void blame(const std::vector<int>& needed, double seconds, const std::string& what) const;
  /// The error of a rank that has gone; by turns, so that one process says it.
  void give_up_on(int rank);
  std::string name_of_rank(int rank) const;

  Place place_;
  double timeout_;
  Rendezvous at_;
  Meeting meeting_;
  std::string description_;
  std::vector<bool> waits_;  // by rank, since this process began to wait
};

}  // namespace mxtape
