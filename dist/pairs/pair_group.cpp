#include "dist/pairs/pair_group.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/text/short_lines.h"
#include "dist/deadline.h"
#include "dist/together.h"

namespace mxtape {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto head_bytes = std::int64_t(2 * sizeof(std::uint64_t));

/// Asks every millisecond until it is so, at most so many seconds.
template <class Question>
bool comes_true(double seconds, const Question& question) {
  const auto end = SteadyClock::now() + std::chrono::duration<double>(seconds);
  for (;; ::usleep(1000)) {
    if (question()) return true;
    if (SteadyClock::now() >= end) return false;
  }
}

/// Texts of any bytes in one, and back.
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    const std::uint64_t bytes = text.size();
    all.append(reinterpret_cast<const char*>(&bytes), sizeof bytes).append(text);
  }
  return all;
}
std::vector<std::string> parted(std::string_view all) {
  std::vector<std::string> texts;
  for (std::uint64_t bytes = 0; !all.empty(); all.remove_prefix(bytes)) {
    std::memcpy(&bytes, all.data(), sizeof bytes);
    all.remove_prefix(sizeof bytes);
    texts.emplace_back(all.substr(0, bytes));
  }
  return texts;
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
    if (comes_true(patience, [&] { return end_of(peer.process).ended; })) continue;
    ::kill(peer.process, SIGKILL);
    ::waitpid(peer.process, nullptr, 0);
  }
}

std::string PairGroup::description() const { return fmt::format("{} processes on 1 host", place_.size); }

std::string PairGroup::name_of_rank(int rank) const {
  return fmt::format("rank {} of {} (process {})", rank, place_.size, peers_[std::size_t(rank)].process);
}

void PairGroup::look_for_the_dead(double seconds) {
  comes_true(seconds, [&] {
    for (int rank = 1; rank < place_.size; ++rank) {
      if (peer(rank).process == 0) continue;
      const ProcessEnd end = end_of(peer(rank).process);
      if (!end.ended) continue;
      cause_is_known_ = true;
      const std::string name = name_of_rank(rank);
      peer(rank).process = 0;
      fail(ExitCode::peer, "{} {}", name, end.text.empty() ? "has ended before the run" : end.text);
    }
    return false;
  });
}

void PairGroup::serve() {
  for (int rank = 0; rank < place_.size; ++rank) {
    Channel& channel = peer(rank).channel;
    channel.serve();
    const auto is_wait = [](const Channel::Message& m) { return m.kind == Channel::Kind::waits; };
    if (std::erase_if(channel.messages, is_wait) > 0) peer(rank).waits = true;
    for (const Channel::Message& message : channel.messages) {
      if (message.kind != Channel::Kind::last_words) continue;
      const auto code = ExitCode(std::stoi(message.text));
      // What a process says of others may come of the death of one of them.
      if (code == ExitCode::peer) look_for_the_dead(0.25);
      cause_is_known_ = true;
      throw Error(code, name_of_rank(rank) + ": " + message.text.substr(message.text.find('\n') + 1));
    }
  }
  if (place_.rank > 0 && !peer(0).channel.is_open() && peer(0).channel.messages.empty())
    throw Told(ExitCode::peer);
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
    const bool late = deadline.has_passed();
    if (place_.rank == 0) {
      for (const int rank : ranks) {
        if (peer(rank).channel.is_open()) continue;
        look_for_the_dead(2);
        fail(ExitCode::peer, "{} has closed its connection", name_of_rank(rank));
      }
      if (late) {
        const bool all_wait = std::all_of(ranks.begin(), ranks.end(), [&](int r) { return peer(r).waits; });
        std::vector<std::string> blamed;
        for (const int rank : ranks)
          if (all_wait || !peer(rank).waits)
            blamed.push_back(fmt::format("{} (process {})", rank, peer(rank).process));
        deadline.blame(what, blamed);
      }
    } else if (!said && deadline.is_half_over()) {
      said = true;
      peer(0).channel.send(Channel::Kind::waits, "");
    }
    std::vector<pollfd> all;
    for (const Peer& p : peers_) {
      if (p.channel.is_open())
        all.push_back(
            {p.channel.socket().descriptor(), short(p.channel.sends() ? POLLIN | POLLOUT : POLLIN), 0});
      const int wanted = (p.sends.empty() ? 0 : POLLOUT) | (p.receives.empty() ? 0 : POLLIN);
      if (p.socket && wanted) all.push_back({p.socket.descriptor(), short(wanted), 0});
    }
    constexpr int milliseconds = 100;  // a stop of this process shows as a longer one
    ::poll(all.data(), all.size(), milliseconds);
  }
}

std::vector<std::string> PairGroup::all_gather(std::string_view mine, Patience patience) {
  const int first = place_.rank == 0 ? 1 : 0, end = place_.rank == 0 ? place_.size : 1;  // who is heard
  const auto wait_while = [&](const auto& is_needed, const char* what) {
    const auto needed = [&] {
      std::vector<int> ranks;
      for (int rank = first; rank < end; ++rank)
        if (is_needed(peer(rank).channel)) ranks.push_back(rank);
      return ranks;
    };
    wait(needed, patience, what);
  };
  const auto hear = [&] {
    std::vector<std::string> texts;
    wait_while([](const Channel& channel) { return channel.messages.empty(); }, "to hear from all");
    for (int rank = first; rank < end; ++rank) {
      auto& messages = peer(rank).channel.messages;
      texts.push_back(std::move(messages.front().text));
      messages.pop_front();
    }
    return texts;
  };
  if (place_.rank > 0) {
    peer(0).channel.send(Channel::Kind::text, mine);
    return parted(hear().front());
  }
  std::vector<std::string> texts = hear();
  texts.emplace(texts.begin(), mine);
  for (int rank = first; rank < end; ++rank) peer(rank).channel.send(Channel::Kind::text, joined(texts));
  wait_while([](const Channel& channel) { return channel.sends(); }, "to tell all");
  return texts;
}

void PairGroup::abandon(ExitCode code, std::string_view why) noexcept {
  if (place_.rank > 0) {
    Channel& channel = peer(0).channel;
    channel.send(Channel::Kind::last_words, fmt::format("{}\n{}", int(code), why));
    for (; channel.is_open(); ::usleep(1000)) channel.serve();  // rank 0 says it, and ends all
    ::_exit(int(code));
  }
  std::string text(why);
  try {  // a death may show elsewhere first, as in NCCL
    if (code == ExitCode::peer && !cause_is_known_) serve(), look_for_the_dead(0.25);
  } catch (const Error& e) {
    code = e.code(), text = e.what();
  }
  std::fflush(nullptr);
  std::fprintf(stderr, "mxtape: %s\n", with_short_lines(text).c_str());
  for (const Peer& p : peers_)
    if (p.process != 0) ::kill(p.process, SIGKILL), ::waitpid(p.process, nullptr, 0);
  ::_exit(int(code));
}

void PairGroup::start(int place, std::span<const Part> send, std::span<const Part> receive) {
  for (const Part& part : send) peer(part.rank).sends.push_back({place, part.data});
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
    if (!ranks.empty()) ranks.insert(ranks.end(), ended.begin(), ended.end());
    return ranks;
  };
  wait(needed, Patience::step, fmt::format("in exchange {}", place));
}

void PairGroup::progress() {
  for (int rank = 0; rank < place_.size; ++rank) {
    Peer& p = peer(rank);
    while (p.socket && !p.sends.empty() && advance_send(p, p.sends.front())) p.sends.pop_front();
    while (p.socket && !p.receives.empty() && advance_receive(rank, p, p.receives.front()))
      p.receives.pop_front();
  }
}

bool PairGroup::advance_send(Peer& p, Transfer& t) {
  const Head head{std::uint64_t(t.place), std::uint64_t(t.data.bytes())};
  const std::int64_t whole = head_bytes + t.data.bytes();
  while (t.moved < whole) {
    const std::int64_t of_data = std::max<std::int64_t>(t.moved - head_bytes, 0);
    const std::int64_t of_head = std::min(t.moved, head_bytes);
    const std::int64_t bytes = p.socket.write(
        std::string_view(reinterpret_cast<const char*>(&head) + of_head, std::size_t(head_bytes - of_head)),
        std::string_view(static_cast<const char*>(t.data.raw()) + of_data,
                         std::size_t(t.data.bytes() - of_data)));
    if (bytes < 0) p.socket.close();
    if (bytes <= 0) return false;
    t.moved += bytes;
  }
  return true;
}

bool PairGroup::advance_receive(int rank, Peer& p, Transfer& t) {
  const std::int64_t whole = head_bytes + t.data.bytes();
  while (t.moved < whole) {
    const bool in_head = t.moved < head_bytes;
    char* const to = in_head ? reinterpret_cast<char*>(&p.received) + t.moved
                             : static_cast<char*>(t.data.raw()) + (t.moved - head_bytes);
    const std::int64_t bytes = p.socket.read(to, (in_head ? head_bytes : whole) - t.moved);
    if (bytes < 0) p.socket.close();
    if (bytes <= 0) return false;
    t.moved += bytes;
    if (!in_head || t.moved < head_bytes) continue;
    require(p.received.place == std::uint64_t(t.place) && p.received.bytes == std::uint64_t(t.data.bytes()),
            ExitCode::internal,
            "the processes have come apart: rank {} sends {} bytes in exchange {}, where {} in exchange {} "
            "are wanted",
            rank, p.received.bytes, p.received.place, t.data.bytes(), t.place);
  }
  return true;
}

}  // namespace mxtape
