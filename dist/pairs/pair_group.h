#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/pairs/channel.h"
#include "dist/pairs/forked.h"
#include "dist/together.h"

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
  using Head = std::array<std::int64_t, 2>;  ///< place and bytes
  struct Transfer {
    int place;
    Tensor data;
    Head head{};             ///< of what is received: as it came
    std::int64_t moved = 0;  ///< bytes, the head's first
  };
  struct Peer {
    Channel channel{};  ///< for messages; closed between two that are not rank 0
    Socket socket{};    ///< for tensors: one message each, behind a head that says what it is
    std::deque<Transfer> sends{}, receives{};
    pid_t process = 0;   ///< rank 0's, until its end is known
    bool waits = false;  ///< since this process began to wait
  };
  Peer& peer(int rank) { return peers_[std::size_t(rank)]; }
  std::string name_of_rank(int rank) const;
  static const Channel::Message* last_words_of(const Peer&);

  /// Waits until no rank is needed any more.
  void wait(const std::function<std::vector<int>()>& needed, Patience, const std::string& what);
  /// Moves messages. Throws what ends the run: on rank 0 Error(peer) with another's last words, elsewhere
  /// SaidElsewhere once rank 0 has ended.
  void serve();
  /// Moves what can be moved now; whether the transfer is whole.
  template <class Move>
  static bool advance(Peer&, Transfer&, const Move&);
  /// Rank 0: throws Error(peer) for a process that has died without a word, or does in so many seconds.
  void look_for_the_dead(double seconds);

  Place place_;
  double timeout_;
  std::vector<Peer> peers_;        // by rank
  ExitCode cause_ = ExitCode::ok;  // rank 0: of the end, where another process has said it, or died
};

}  // namespace mxtape
