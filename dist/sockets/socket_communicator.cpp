#include "dist/sockets/socket_communicator.h"

#include <algorithm>

namespace mxtape {
namespace {

constexpr auto head_bytes = std::int64_t(2 * sizeof(std::uint64_t));

}  // namespace

void SocketCommunicator::start(int place, std::span<const Part> send, std::span<const Part> receive) {
  if (peers_.empty())
    for (Socket& socket : group_.connect_again()) peers_.emplace_back().socket = std::move(socket);
  for (const Part& part : send) peers_[std::size_t(part.rank)].sends.push_back({place, part.data});
  for (const Part& part : receive) peers_[std::size_t(part.rank)].receives.push_back({place, part.data});
  serve();
}

void SocketCommunicator::finish(int place) {
  const auto has = [&](const std::deque<Transfer>& all) {
    return std::any_of(all.begin(), all.end(), [&](const Transfer& t) { return t.place == place; });
  };
  const auto needed = [&] {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
      if (has(peers_[rank].sends) || has(peers_[rank].receives)) ranks.push_back(int(rank));
    return ranks;
  };
  group_.wait(needed, Patience::step, fmt::format("in exchange {}", place), this);
}

void SocketCommunicator::look_at(std::vector<pollfd>& all) const {
  for (const Peer& peer : peers_) {
    const int wanted = (peer.sends.empty() ? 0 : POLLOUT) | (peer.receives.empty() ? 0 : POLLIN);
    if (peer.socket && wanted) all.push_back({peer.socket.descriptor(), short(wanted), 0});
  }
}

bool SocketCommunicator::has_lost(int rank) const { return !peers_[std::size_t(rank)].socket; }

void SocketCommunicator::serve() {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    while (peer.socket && !peer.sends.empty() && advance_send(peer, peer.sends.front()))
      peer.sends.pop_front();
    while (peer.socket && !peer.receives.empty() && advance_receive(int(rank), peer, peer.receives.front()))
      peer.receives.pop_front();
  }
}

bool SocketCommunicator::advance_send(Peer& peer, Transfer& t) {
  const Head head{std::uint64_t(t.place), std::uint64_t(t.data.bytes())};
  const std::int64_t whole = head_bytes + t.data.bytes();
  while (t.moved < whole) {
    const std::int64_t of_data = std::max<std::int64_t>(t.moved - head_bytes, 0);
    const std::int64_t of_head = std::min(t.moved, head_bytes);
    const std::int64_t bytes = peer.socket.write(
        std::string_view(reinterpret_cast<const char*>(&head) + of_head, std::size_t(head_bytes - of_head)),
        std::string_view(static_cast<const char*>(t.data.raw()) + of_data,
                         std::size_t(t.data.bytes() - of_data)));
    if (bytes < 0) peer.socket.close();
    if (bytes <= 0) return false;
    t.moved += bytes;
  }
  return true;
}

bool SocketCommunicator::advance_receive(int rank, Peer& peer, Transfer& t) {
  const std::int64_t whole = head_bytes + t.data.bytes();
  while (t.moved < whole) {
    const bool in_head = t.moved < head_bytes;
    char* const to = in_head ? reinterpret_cast<char*>(&peer.received) + t.moved
                             : static_cast<char*>(t.data.raw()) + (t.moved - head_bytes);
    const std::int64_t bytes = peer.socket.read(to, (in_head ? head_bytes : whole) - t.moved);
    if (bytes < 0) peer.socket.close();
    if (bytes <= 0) return false;
    t.moved += bytes;
    if (!in_head || t.moved < head_bytes) continue;
    require(
        peer.received.place == std::uint64_t(t.place) && peer.received.bytes == std::uint64_t(t.data.bytes()),
        ExitCode::internal,
        "the processes have come apart: rank {} sends {} bytes in exchange {}, where {} in exchange {} are "
        "wanted",
        rank, peer.received.bytes, peer.received.place, t.data.bytes(), t.place);
  }
  return true;
}

}  // namespace mxtape
