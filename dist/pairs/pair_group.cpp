#include "dist/pairs/pair_group.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>

#include "core/text/short_lines.h"
#include "dist/deadline.h"

namespace mxtape {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Asks every millisecond until it is so, at most so many seconds.
template <class Question>
bool comes_true(double seconds, const Question& question) {
  const auto end = SteadyClock::now() + std::chrono::duration<double>(seconds);
  for (;; ::usleep(1000)) {
    if (question()) return true;
    if (SteadyClock::now() >= end) return false;
  }
}

}  // namespace

PairGroup::PairGroup(Forked forked, double timeout_seconds)
    : timeout_(timeout_seconds), peers_(forked.tensors.size()) {
  place_.rank = place_.local_rank = forked.rank;
  place_.size = place_.local_size = int(peers_.size());
  forked.processes.resize(peers_.size());
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].channel = Channel(std::move(forked.messages[rank]));
    peers_[rank].socket = std::move(forked.tensors[rank]);
    peers_[rank].process = forked.processes[rank];
  }
}

PairGroup::~PairGroup() {
  for (Peer& peer : peers_) peer.channel = {}, peer.socket = {};
  for (Peer& peer : peers_) {
    if (peer.process == 0) continue;
    constexpr double patience = 30;
    if (comes_true(patience, [&] { return end_of(peer.process).has_value(); })) continue;
    ::kill(peer.process, SIGKILL);
    comes_true(2, [&] { return end_of(peer.process).has_value(); });
  }
}

std::string PairGroup::description() const { return fmt::format("{} processes on 1 host", place_.size); }

std::string PairGroup::name_of_rank(int rank) const {
  return fmt::format("rank {} of {} (process {})", rank, place_.size, peers_[std::size_t(rank)].process);
}

const Channel::Message* PairGroup::last_words_of(const Peer& p) {
  const auto& all = p.channel.messages;
  const auto found = std::ranges::find(all, Channel::Kind::last_words, &Channel::Message::kind);
  return found == all.end() ? nullptr : &*found;
}

void PairGroup::look_for_the_dead(double seconds) {
  comes_true(seconds, [&] {
    for (int rank = 1; rank < place_.size; ++rank) {
      if (peer(rank).process == 0 || last_words_of(peer(rank))) continue;
      const std::optional<std::string> end = end_of(peer(rank).process);
      if (!end) continue;
      cause_ = ExitCode::peer;
      const std::string name = name_of_rank(rank);
      peer(rank).process = 0;
      fail(ExitCode::peer, "{} {}", name, *end);
    }
    return false;
  });
}

void PairGroup::serve() {
  for (Peer& p : peers_) {
    p.channel.serve();
    const auto is_wait = [](const Channel::Message& m) { return m.kind == Channel::Kind::waits; };
    if (std::erase_if(p.channel.messages, is_wait) > 0) p.waits = true;
  }
  for (int rank = 0; rank < place_.size; ++rank) {
    const Channel::Message* const words = last_words_of(peer(rank));
    if (!words) continue;
    const auto code = ExitCode(std::stoi(words->text));
    // What a process says of others may come of the death of one of them.
    if (code == ExitCode::peer) look_for_the_dead(0.25);
    cause_ = code;
    const std::string why = words->text.substr(words->text.find('\n') + 1);
    throw Error(ExitCode::peer, name_of_rank(rank) + ": " + why);
  }
  if (place_.rank > 0 && !peer(0).channel.is_open() && peer(0).channel.messages.size() < peers_.size())
    throw SaidElsewhere(ExitCode::peer);
}

void PairGroup::wait(const std::function<std::vector<int>()>& needed, Patience patience,
                     const std::string& what) {
  Deadline deadline(timeout_, patience);
  for (Peer& p : peers_) p.waits = false;
  for (bool said = false;;) {
    serve();
    progress();
    const std::vector<int> ranks = needed();
    if (ranks.empty()) return;
    if (place_.rank == 0) {
      for (const int rank : ranks) {
        if (peer(rank).channel.is_open()) continue;
        look_for_the_dead(2);
        fail(ExitCode::peer, "{} has closed its connection", name_of_rank(rank));
      }
      if (deadline.has_passed()) {
        std::vector<std::string> blamed, waiting;
        for (const int rank : ranks)
          (peer(rank).waits ? waiting : blamed)
              .push_back(fmt::format("{} (process {})", rank, peer(rank).process));
        deadline.blame(what, blamed.empty() ? waiting : blamed);
      }
    } else if (!said && deadline.has_passed(timeout_ / 2)) {
      said = true;
      peer(0).channel.send(Channel::Kind::waits, "");
    }
    std::vector<pollfd> all;
    for (const Peer& p : peers_) {
      if (p.channel.is_open())
        all.push_back({p.channel.socket().number(), short(p.channel.sends() ? POLLIN | POLLOUT : POLLIN), 0});
      const int wanted = (p.sends.empty() ? 0 : POLLOUT) | (p.receives.empty() ? 0 : POLLIN);
      if (p.socket && wanted) all.push_back({p.socket.number(), short(wanted), 0});
    }
    constexpr int milliseconds = 100;  // a stop of this process shows as a longer one
    ::poll(all.data(), all.size(), milliseconds);
  }
}

std::vector<std::string> PairGroup::all_gather(std::string_view mine, Patience patience) {
  const bool gathers = place_.rank == 0;
  const int first = gathers ? 1 : 0, end = gathers ? place_.size : 1;  // who is heard
  const auto wait_while = [&](const char* what, const auto& is_needed) {
    const auto needed = [&] {
      std::vector<int> ranks;
      for (int rank = first; rank < end; ++rank)
        if (is_needed(peer(rank).channel)) ranks.push_back(rank);
      return ranks;
    };
    wait(needed, patience, what);
  };
  std::vector<std::string> texts;
  if (gathers)
    texts.emplace_back(mine);
  else
    peer(0).channel.send(Channel::Kind::text, mine);
  const std::size_t of_each = gathers ? 1 : peers_.size();
  wait_while("to hear from all", [&](const Channel& c) { return c.messages.size() < of_each; });
  for (int rank = first; rank < end; ++rank)
    for (std::size_t i = 0; i < of_each; ++i) {
      auto& messages = peer(rank).channel.messages;
      texts.push_back(std::move(messages.front().text));
      messages.pop_front();
    }
  if (!gathers) return texts;
  for (int rank = first; rank < end; ++rank)
    for (const std::string& text : texts) peer(rank).channel.send(Channel::Kind::text, text);
  wait_while("to tell all", [](const Channel& c) { return c.sends(); });
  return texts;
}

void PairGroup::abandon(ExitCode code, std::string_view why) noexcept {
  if (place_.rank > 0) {
    Channel& channel = peer(0).channel;
    channel.send(Channel::Kind::last_words, fmt::format("{}\n{}", int(code), why));
    // Rank 0 says it, and ends all. It reads it later, too, where it waits for this process in a library.
    comes_true(1, [&] { return channel.serve(), !channel.is_open(); });
    ::_exit(int(code));
  }
  std::string text(why);
  try {  // a death may show elsewhere first, as in NCCL
    if (code == ExitCode::peer && cause_ == ExitCode::ok) serve(), look_for_the_dead(0.25);
  } catch (const Error& e) {
    text = e.what();
  }
  if (cause_ != ExitCode::ok && code != ExitCode::interrupted) code = cause_;  // a stop has saved
  std::fflush(nullptr);
  std::fprintf(stderr, "mxtape: %s\n", with_short_lines(text).c_str());
  for (const Peer& p : peers_)
    if (p.process != 0) ::kill(p.process, SIGKILL);
  for (const Peer& p : peers_)  // one that hangs in the kernel is left
    if (p.process != 0) comes_true(2, [&] { return end_of(p.process).has_value(); });
  ::_exit(int(code));
}

void PairGroup::start(int place, std::span<const Part> send, std::span<const Part> receive) {
  for (const Part& part : send)
    peer(part.rank).sends.push_back({place, part.data, {place, part.data.bytes()}});
  for (const Part& part : receive) peer(part.rank).receives.push_back({place, part.data});
  progress();
}

void PairGroup::finish(int place) {
  const auto has = [&](const std::deque<Transfer>& all) {
    return std::any_of(all.begin(), all.end(), [&](const Transfer& t) { return t.place == place; });
  };
  const auto needed = [&] {
    std::vector<int> ranks, ended;
    for (int rank = 0; rank < place_.size; ++rank)
      if (has(peer(rank).sends) || has(peer(rank).receives)) ranks.push_back(rank);
      // Who waits for it keeps others waiting.
      else if (peer(rank).process != 0 && !peer(rank).channel.is_open())
        ended.push_back(rank);
    if (!ranks.empty()) std::ranges::copy(ended, std::back_inserter(ranks));  // g++ 14 warns of insert()
    return ranks;
  };
  wait(needed, Patience::step, fmt::format("in exchange {}", place));
}

void PairGroup::progress() {
  for (Peer& p : peers_) {
    const auto read = [&](char* at, std::int64_t bytes) { return p.socket.read(at, bytes); };
    const auto write = [&](char* at, std::int64_t bytes) { return p.socket.write(at, bytes); };
    while (!p.sends.empty() && advance(p, p.sends.front(), write)) p.sends.pop_front();
    while (!p.receives.empty() && advance(p, p.receives.front(), read)) p.receives.pop_front();
  }
}

template <class Move>
bool PairGroup::advance(Peer& p, Transfer& t, const Move& move) {
  constexpr std::int64_t head_bytes = sizeof t.head;
  for (std::int64_t whole = head_bytes + t.data.bytes(); t.moved < whole;) {
    const bool in_head = t.moved < head_bytes;
    char* const at = in_head ? reinterpret_cast<char*>(t.head.data()) + t.moved
                             : static_cast<char*>(t.data.raw()) + (t.moved - head_bytes);
    const std::int64_t bytes = p.socket ? move(at, (in_head ? head_bytes : whole) - t.moved) : 0;
    if (bytes < 0) p.socket.close();
    if (bytes <= 0) return false;
    t.moved += bytes;
    if (t.moved == head_bytes)
      require(t.head == Head{t.place, t.data.bytes()}, ExitCode::internal,
              "the processes have come apart: {} bytes are sent in exchange {}, where {} in exchange {} are "
              "wanted",
              t.head[1], t.head[0], t.data.bytes(), t.place);
  }
  return true;
}

}  // namespace mxtape
