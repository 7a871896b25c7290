#include "dist/sockets/socket_group.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>

#include "dist/together.h"

namespace mxtape {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
constexpr double long_patience = 10;
constexpr double turn = 0.25;       // seconds that a rank leaves to each one below it to speak first
constexpr double on_the_way = 0.1;  // seconds that last words may take longer than the end of a connection

SteadyClock::duration duration(double seconds) {
  return std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
}

Place with_host(Place place) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  place.host = host.data();
  return place;
}

}  // namespace

SocketGroup::SocketGroup(const Place& place, const Rendezvous& at, double timeout_seconds)
    : place_(with_host(place)),
      timeout_(timeout_seconds),
      at_(at),
      meeting_(meet(at, place_, 2 * timeout_seconds)) {
  std::vector<std::string> hosts;
  for (const Member& member : meeting_.members) hosts.push_back(member.host);
  place_.local_size = int(std::count(hosts.begin(), hosts.end(), place_.host));
  const std::size_t count = std::set<std::string>(hosts.begin(), hosts.end()).size();
  waits_.assign(hosts.size(), false);
  description_ = fmt::format("sockets, {} processes on {} host{}", place_.size, count, count == 1 ? "" : "s");
}

std::string SocketGroup::name_of_rank(int rank) const {
  return fmt::format("rank {} of {} ({})", rank, place_.size, meeting_.members[std::size_t(rank)].host);
}

void SocketGroup::serve() {
  for (std::size_t rank = 0; rank < meeting_.channels.size(); ++rank) {
    Channel& channel = meeting_.channels[rank];
    channel.serve();
    for (const Channel::Message& message : channel.messages)
      if (message.kind == Channel::Kind::last_words) throw Told(ExitCode::peer);
    const auto says_so = [](const Channel::Message& m) { return m.kind == Channel::Kind::waits; };
    if (std::erase_if(channel.messages, says_so) > 0) waits_[rank] = true;
  }
}

void SocketGroup::give_up_on(int rank) {
  int below = 0;
  for (int other = 0; other < place_.rank; ++other)  // its own channel may not have told of its end yet
    below += other != rank && meeting_.channels[std::size_t(other)].is_open();
  const auto until = SteadyClock::now() + duration(std::max(turn * below, on_the_way));
  do {
    serve();
    ::usleep(1000);
  } while (SteadyClock::now() < until);
  fail(ExitCode::peer, "{} is gone: its connection has ended; killed, out of memory, or its host is down",
       name_of_rank(rank));
}

void SocketGroup::blame(const std::vector<int>& needed, double seconds, const std::string& what) const {
  std::vector<int> ranks;
  for (const int rank : needed)
    if (!waits_[std::size_t(rank)]) ranks.push_back(rank);
  if (ranks.empty()) ranks = needed;
  std::string names;
  for (const int rank : ranks)
    names +=
        fmt::format("{}{} ({})", names.empty() ? "" : ", ", rank, meeting_.members[std::size_t(rank)].host);
  fail(ExitCode::peer,
       "waited {:.0f} s, {}, for rank{} {}: gone, stopped, or slower than MXTAPE_PEER_TIMEOUT allows",
       seconds, what, ranks.size() == 1 ? "" : "s", names);
}

void SocketGroup::wait(const std::function<std::vector<int>()>& needed, Patience patience,
                       const std::string& what, Connections* more) {
  const double seconds = timeout_ * (patience == Patience::alone ? long_patience : 1);
  auto last = SteadyClock::now();
  auto deadline = last + duration(seconds + turn * place_.rank);
  bool said = false;
  waits_.assign(meeting_.channels.size(), false);
  for (;;) {
    serve();
    if (more) more->serve();
    const std::vector<int> ranks = needed();
    if (ranks.empty()) return;
    for (const int rank : ranks)
      if (!meeting_.channels[std::size_t(rank)].is_open() || (more && more->has_lost(rank))) give_up_on(rank);
    // What this process slept through itself, stopped by a signal or with its machine, is not the others'
    // fault.
    const auto now = SteadyClock::now();
    if (now - last > std::chrono::seconds(1)) deadline += now - last;
    last = now;
    if (now >= deadline) blame(ranks, seconds, what);
    if (!said && now >= deadline - duration(seconds / 2)) {
      said = true;
      for (Channel& channel : meeting_.channels)
        if (channel.is_open()) channel.send(Channel::Kind::waits, "");
    }
    std::vector<pollfd> all;
    for (const Channel& channel : meeting_.channels)
      if (channel.is_open())
        all.push_back({channel.socket().descriptor(), short(channel.sends() ? POLLIN | POLLOUT : POLLIN), 0});
    if (more) more->look_at(all);
    constexpr int milliseconds = 100;  // a stop of this process shows as a longer one
    ::poll(all.data(), all.size(), milliseconds);
  }
}

std::vector<std::string> SocketGroup::all_gather(std::string_view mine, Patience patience) {
  for (int rank = 0; rank < place_.size; ++rank)
    if (rank != place_.rank) meeting_.channels[std::size_t(rank)].send(Channel::Kind::text, mine);
  const auto needed = [&] {
    std::vector<int> ranks;
    for (int rank = 0; rank < place_.size; ++rank) {
      const Channel& channel = meeting_.channels[std::size_t(rank)];
      if (rank != place_.rank && (channel.messages.empty() || channel.sends())) ranks.push_back(rank);
    }
    return ranks;
  };
  wait(needed, patience, "to hear from all");
  std::vector<std::string> texts(meeting_.channels.size());
  for (int rank = 0; rank < place_.size; ++rank) {
    if (rank == place_.rank) continue;
    auto& messages = meeting_.channels[std::size_t(rank)].messages;
    texts[std::size_t(rank)] = std::move(messages.front().text);
    messages.pop_front();
  }
  texts[std::size_t(place_.rank)] = mine;
  return texts;
}

std::vector<Socket> SocketGroup::connect_again() {
  Socket listener = listen_for(at_, 0, place_.size);
  require(bool(listener), ExitCode::resource, "cannot listen for the other processes");
  Door door(std::move(listener), meeting_.secret);
  const auto ports = all_gather(std::to_string(door.port()), Patience::alone);
  for (std::size_t rank = 0; rank < ports.size(); ++rank)
    meeting_.members[rank].port = std::atoi(ports[rank].c_str());
  return connect_all(place_, meeting_.members, meeting_.secret, door, 0, timeout_, [&] {
    serve();
    for (int rank = 0; rank < place_.size; ++rank)
      if (rank != place_.rank && !meeting_.channels[std::size_t(rank)].is_open()) give_up_on(rank);
  });
}

void SocketGroup::abandon(ExitCode code, std::string_view why) noexcept {
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(10);  // whatever happens below
  std::fprintf(stderr, "mxtape: %s: %.*s\n", name_of_rank(place_.rank).c_str(), int(why.size()), why.data());
  std::fflush(nullptr);
  const auto all = [&](const auto& f) {
    for (Channel& channel : meeting_.channels)
      if (channel.is_open()) f(channel);
  };
  const auto serve_until = [&](double seconds, const auto& busy) {
    const auto until = SteadyClock::now() + duration(seconds);
    for (bool any = true; any && SteadyClock::now() < until; ::usleep(1000)) {
      any = false;
      all([&](Channel& channel) {
        channel.messages.clear();
        channel.serve();
        any |= busy(channel);
      });
    }
  };
  all([&](Channel& channel) { channel.send(Channel::Kind::last_words, std::to_string(int(code))); });
  serve_until(1, [](const Channel& channel) { return channel.is_open() && channel.sends(); });
  // A connection that is closed before it is read to its end may take the last words with it.
  all([](Channel& channel) { channel.end_sending(); });
  serve_until(1, [](const Channel& channel) { return channel.is_open(); });
  ::_exit(int(code));
}

}  // namespace mxtape
