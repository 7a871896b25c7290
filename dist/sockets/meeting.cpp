#include "dist/sockets/meeting.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "dist/sockets/deadline.h"
#include "dist/together.h"

namespace mxtape {
namespace {

/// A message of this kind. Throws Told if rank 0 ends the run instead.
Channel::Message wait_for(Channel& channel, Channel::Kind kind, double seconds, const std::string& what) {
  const Deadline end(seconds);
  for (;;) {
    channel.serve();
    if (!channel.messages.empty()) {
      Channel::Message message = std::move(channel.messages.front());
      channel.messages.pop_front();
      if (message.kind == Channel::Kind::last_words) {
        const int code = std::atoi(message.text.c_str());
        throw Told(code > 0 ? ExitCode(code) : ExitCode::peer);
      }
      if (message.kind == kind) return message;
    }
    const double left = end.left();
    require(channel.is_open() && left > 0, ExitCode::peer, "{} {}", what,
            channel.is_open() ? fmt::format("has not said so within {:.0f} s", seconds) : "is gone");
    pollfd ready{channel.socket().descriptor(), POLLIN, 0};
    ::poll(&ready, 1, int(std::min(left, 1.) * 1000) + 1);
  }
}

/// A scheduler may give rank 0's host its name only when it is up.
std::vector<Address> resolve_by(const Deadline& end, const std::string& host) {
  for (bool said = false;; said = true) {
    try {
      return resolve(host);
    } catch (const Error& e) {
      if (end.has_passed()) throw;
      if (!said) std::fprintf(stderr, "mxtape: %s; looking for it for %.0f s more\n", e.what(), end.left());
    }
    ::usleep(500'000);
  }
}

/// The others' side of the first meeting: rank 0 is at the first of its ports where the run is known.
Channel find_first(const Rendezvous& at, const Hello& hello, double seconds) {
  const Deadline end(seconds);
  constexpr double of_a_connection = 2, of_an_answer = 5;
  for (;;) {
    const auto addresses = resolve_by(end, at.host);
    for (int i = 0; i < Rendezvous::ports; ++i)
      for (const Address& address : addresses) {
        const double left = end.left();
        require(left > 0, ExitCode::peer, "looked {:.0f} s for rank 0 at {}: it is not there", seconds,
                where(at));
        Socket socket = connect_to(address.at(at.first_port + i), std::min(left, of_a_connection));
        if (!socket || socket.write(&hello, sizeof hello) != sizeof hello) continue;
        Channel channel(std::move(socket));
        try {
          wait_for(channel, Channel::Kind::welcome, of_an_answer, "rank 0");
        } catch (const Told&) {
          throw;
        } catch (const Error&) {
          continue;  // somebody else's port
        }
        return channel;
      }
    ::usleep(50'000);
  }
}

Meeting read_table(const std::string& text, int size, const std::string& first) {
  Meeting meeting;
  std::istringstream lines(text);
  lines >> meeting.secret;
  for (Member m; lines >> m.host >> m.address >> m.port; meeting.members.push_back(m))
    if (m.address == "-") m.address = first;
  require(int(meeting.members.size()) == size, "rank 0 names {} processes of {}", meeting.members.size(),
          size);
  return meeting;
}

}  // namespace

std::string where(const Rendezvous& at) {
  return fmt::format("{}, ports {} to {}", at.host.empty() ? "this host" : at.host, at.first_port,
                     at.first_port + Rendezvous::ports - 1);
}

Socket listen_for(const Rendezvous& at, int port, int waiting) {
  if (!at.one_host) return listen_anywhere(port, waiting);
  for (const Address& address : resolve(at.host))  // all take the first one that this host really has
    if (Socket any = listen_at(address.at(0), waiting))
      return port == 0 ? std::move(any) : listen_at(address.at(port), waiting);
  return {};
}

std::string ranks_text(const std::vector<int>& ranks, int size) {
  std::string all;
  for (const int rank : ranks) all += fmt::format("{}{}", all.empty() ? "" : ", ", rank);
  return fmt::format("rank{} {} of {}", ranks.size() == 1 ? "" : "s", all, size);
}

Meeting meet(const Rendezvous& at, const Place& place, double seconds) {
  if (place.rank == 0) return receive_all(at, place, seconds);
  Socket listener = listen_for(at, 0, place.size);
  require(bool(listener), ExitCode::resource, "cannot listen for the other processes at {}",
          at.host.empty() ? "this host" : at.host);
  const int port = own_address(listener).port();
  Channel first = find_first(at, {at.token, place.rank, place.size, port, place.host}, seconds);
  const std::string address = peer_address(first.socket()).text();
  const auto table = wait_for(first, Channel::Kind::table, 2 * seconds, "rank 0, where all meet,");
  Meeting meeting = read_table(table.text, place.size, address);
  Door door(std::move(listener), meeting.secret);
  const auto hear_first = [&] {
    first.serve();
    for (const Channel::Message& message : first.messages)
      if (message.kind == Channel::Kind::last_words) throw Told(ExitCode::peer);
    require(first.is_open(), ExitCode::peer, "rank 0, where all meet, is gone");
  };
  for (Socket& socket : connect_all(place, meeting.members, meeting.secret, door, 1, seconds, hear_first))
    meeting.channels.emplace_back(std::move(socket));
  meeting.channels.front() = std::move(first);
  return meeting;
}

std::vector<Socket> connect_all(const Place& place, const std::vector<Member>& members, std::uint64_t secret,
                                Door& door, int first, double seconds,
                                const std::function<void()>& meanwhile) {
  constexpr double of_a_connection = 60;  // where a firewall says nothing
  const Deadline end(seconds);
  std::vector<Socket> sockets(members.size());
  const Hello hello(secret, place.rank, place.size, 0, place.host);
  for (int rank = first; rank < place.rank; ++rank) {
    const Member& member = members[std::size_t(rank)];
    Socket& socket = sockets[std::size_t(rank)];
    for (const Address& address : resolve(member.address))
      if (!socket) socket = connect_to(address.at(member.port), std::clamp(end.left(), 0., of_a_connection));
    require(
        socket && socket.write(&hello, sizeof hello) == sizeof hello, ExitCode::peer,
        "rank {} ({}) cannot be reached at {}, port {}: it is gone, or a firewall stands between the hosts",
        rank, member.host, member.address, member.port);
  }
  for (;;) {
    std::vector<int> missing;
    for (int rank = std::max(first, place.rank + 1); rank < place.size; ++rank)
      if (!sockets[std::size_t(rank)]) missing.push_back(rank);
    if (missing.empty()) return sockets;
    meanwhile();
    require(!end.has_passed(), ExitCode::peer, "waited {:.0f} s at port {} for {} to connect{}", seconds,
            door.port(), ranks_text(missing, place.size), door.refused());
    auto guest = door.next(100);
    if (guest && guest->hello.rank > place.rank && guest->hello.rank < place.size)
      sockets[std::size_t(guest->hello.rank)] = std::move(guest->socket);
  }
}

}  // namespace mxtape
