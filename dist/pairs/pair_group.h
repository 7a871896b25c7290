#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/group.h"
#include "dist/pairs/channel.h"
#include "dist/pairs/forked.h"

namespace mxtape {

/// Both planes of a run between processes that rank 0 has forked, for devices whose memory is the host's.
/// Messages go by way of rank 0, tensors straight to their owner. Rank 0 alone ends the run: it sees every
/// death as the end of a connection, knows from the system what it was, says so, and ends the others. They
/// wait for it without a deadline, tell it what fails, and end when its connection does.
class PairGroup final : public Group, public Communicator {
 public:
  PairGroup(Forked, double timeout_seconds);
  /// Rank 0 waits for the others, which are at their end, too; those that do not come to it are killed.
  ~PairGroup() override;
  PairGroup(const PairGroup&) = delete;
  PairGroup& operator=(const PairGroup&) = delete;

  const Place& place() const override { return place_; }
  std::string description() const override;
  std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) override;
  [[noreturn]] void abandon(ExitCode, std::string_view why) noexcept override;

  void start(int place, std::span<const Part> send, std::span<const Part> receive) override;
  void progress() override;
  void finish(int place) override;

 private:
  struct Head {
    std::uint64_t place = 0, bytes = 0;
  };
  struct Transfer {
    int place;
    Tensor data;
    std::int64_t moved = 0;  ///< bytes, the head's first
  };
  struct Peer {
    Channel channel{};  ///< for messages; closed between two that are not rank 0
    Socket socket{};    ///< for tensors: one message each, behind a head that says what it is
    Head received{};
    std::deque<Transfer> sends{}, receives{};
    pid_t process = 0;   ///< rank 0's, until its end is known
    bool waits = false;  ///< since this process began to wait
  };
  Peer& peer(int rank) { return peers_[std::size_t(rank)]; }
  std::string name_of_rank(int rank) const;

  /// Waits until no rank is needed any more.
  void wait(const std::function<std::vector<int>()>& needed, Patience, const std::string& what);
  /// Moves messages. Throws what ends the run: on rank 0 another's last words, elsewhere Told once rank 0 has
  /// ended.
  void serve();
  /// Whether the transfer is whole.
  bool advance_send(Peer&, Transfer&);
  bool advance_receive(int rank, Peer&, Transfer&);
  /// Rank 0: throws Error(peer) for a process that has died, or dies in so many seconds.
  void look_for_the_dead(double seconds);

  Place place_;
  double timeout_;
  std::vector<Peer> peers_;  // by rank
  bool cause_is_known_ = false;
};

}  // namespace mxtape
