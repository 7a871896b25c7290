#pragma once
#include <array>
#include <deque>
#include <vector>

#include "dist/communicator.h"
#include "dist/sockets/socket_group.h"

namespace mxtape {

/// The device plane over TCP, for devices whose memory is the host's: a connection of its own between each
/// two processes, made at the first start(). One message a part, behind a head that says what it is.
class SocketCommunicator final : public Communicator, private SocketGroup::Connections {
 public:
  explicit SocketCommunicator(SocketGroup& group) : group_(group) {}

  std::string description() const override { return group_.description(); }
  void start(int place, std::span<const Part> send, std::span<const Part> receive) override;
  void progress() override { serve(); }
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
    Socket socket;
    Head received{};
    std::deque<Transfer> sends, receives;
  };
  void look_at(std::vector<pollfd>&) const override;
  void serve() override;
  bool has_lost(int rank) const override;
  /// Whether the transfer is whole.
  bool advance_send(Peer&, Transfer&);
  bool advance_receive(int rank, Peer&, Transfer&);

  SocketGroup& group_;
  std::vector<Peer> peers_;  // by rank
};

}  // namespace mxtape
