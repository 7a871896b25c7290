// Rank 0's side of the first meeting.
#include <unistd.h>

#include <cstdio>
#include <random>

#include "dist/sockets/deadline.h"
#include "dist/sockets/meeting.h"

namespace mxtape {
namespace {

class Host {
 public:
  Host(const Rendezvous& at, const Place& place, double seconds)
      : at_(at),
        place_(place),
        seconds_(seconds),
        door_(open(at, place.size), at.token),
        members_(std::size_t(place.size)),
        channels_(std::size_t(place.size)) {}

  Meeting receive() {
    try {
      wait_for_all();
    } catch (const Error& e) {
      end_all(e.code());
      throw;
    }
    Meeting meeting;
    meeting.secret = (std::uint64_t(std::random_device{}()) << 32) | std::random_device{}();
    members_[0] = {place_.host, "", 0};
    std::string table = fmt::format("{}\n", meeting.secret);
    for (const Member& m : members_)
      table += fmt::format("{} {} {}\n", m.host, m.address.empty() ? "-" : m.address, m.port);
    for (int rank = 1; rank < place_.size; ++rank) channel(rank).send(Channel::Kind::table, table);
    flush();
    meeting.members = members_;
    meeting.channels = std::move(channels_);
    return meeting;
  }

 private:
  static Socket open(const Rendezvous& at, int size) {
    for (int i = 0; i < Rendezvous::ports; ++i)
      if (Socket socket = listen_for(at, at.first_port + i, size)) return socket;
    fail(ExitCode::resource, "no port is free at {}: want one to listen at for the other processes",
         where(at));
  }
  Channel& channel(int rank) { return channels_[std::size_t(rank)]; }
  std::vector<int> missing() {
    std::vector<int> ranks;
    for (int rank = 1; rank < place_.size; ++rank) {
      channel(rank).serve();
      if (!channel(rank).is_open()) ranks.push_back(rank);  // never came, or has gone again
    }
    return ranks;
  }
  void wait_for_all() {
    const Deadline end(seconds_);
    constexpr double often = 10;
    Deadline say(often);
    for (auto ranks = missing(); !ranks.empty(); ranks = missing()) {
      if (auto guest = door_.next(100)) welcome(std::move(*guest));
      require(!end.has_passed(), ExitCode::peer, "waited {:.0f} s at port {} for {} to start{}", seconds_,
              door_.port(), ranks_text(ranks, place_.size), door_.refused());
      if (!say.has_passed()) continue;
      std::printf("%s\n", fmt::format("waiting at port {} for {}{}", door_.port(),
                                      ranks_text(ranks, place_.size), door_.refused())
                              .c_str());
      std::fflush(stdout);
      say = Deadline(often);
    }
  }
  void welcome(Door::Guest guest) {
    const Hello& hello = guest.hello;
    const std::string host = hello.host_name();
    Channel arrived(std::move(guest.socket));
    arrived.send(Channel::Kind::welcome, "");
    arrived.serve();
    try {
      require(
          hello.size == place_.size, ExitCode::usage,
          "the processes of the run differ in their number: rank 0 ({}) is one of {}, rank {} ({}) one of "
          "{}; start all alike, and keep runs apart that share a host by MASTER_PORT or MXTAPE_RUN_ID",
          place_.host, place_.size, hello.rank, host, hello.size);
      require(hello.rank > 0 && hello.rank < place_.size, ExitCode::usage,
              "a process on {} says that it is rank {} of {}; want ranks from 1 on, and one rank 0", host,
              hello.rank, hello.size);
      Channel& mine = channel(hello.rank);
      mine.serve();  // it may have tried before, and gone again
      require(!mine.is_open(), ExitCode::usage,
              "two processes say that they are rank {} of {}: one on {}, one on {}; want each rank once",
              hello.rank, place_.size, members_[std::size_t(hello.rank)].host, host);
    } catch (const Error& e) {
      last_word(arrived, e.code());
      throw;
    }
    members_[std::size_t(hello.rank)] = {host, guest.from.is_loopback() ? "" : guest.from.text(), hello.port};
    channel(hello.rank) = std::move(arrived);
  }
  void last_word(Channel& c, ExitCode code) {
    ++told_;
    c.send(Channel::Kind::last_words, std::to_string(int(code)));
    c.serve();
    c.end_sending();
  }
  /// Those who come a little later are told, too.
  void end_all(ExitCode code) {
    constexpr double later = 2;
    for (Channel& c : channels_)
      if (c.is_open()) last_word(c, code);
    for (const Deadline end(later); told_ < place_.size - 1 && !end.has_passed();)
      if (auto guest = door_.next(100)) {
        Channel late(std::move(guest->socket));
        late.send(Channel::Kind::welcome, "");
        last_word(late, code);
      }
  }
  void flush() {
    const Deadline end(seconds_);
    for (Channel& c : channels_)
      for (c.serve(); c.is_open() && c.sends() && !end.has_passed(); c.serve()) ::usleep(1000);
  }

  const Rendezvous& at_;
  const Place& place_;
  double seconds_;
  Door door_;
  std::vector<Member> members_;
  std::vector<Channel> channels_;
  int told_ = 0;  // that the run ends
};

}  // namespace

Meeting receive_all(const Rendezvous& at, const Place& place, double seconds) {
  return Host(at, place, seconds).receive();
}

}  // namespace mxtape
