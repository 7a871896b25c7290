#include "dist/sockets/door.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

namespace mxtape {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto most_patience = std::chrono::seconds(5);
constexpr std::size_t most_pending = 128;  // a descriptor each

}  // namespace

Hello::Hello(std::uint64_t its_token, int its_rank, int its_size, int its_port, std::string_view its_host)
    : token(its_token), rank(its_rank), size(its_size), port(its_port) {
  std::copy_n(its_host.data(), std::min(its_host.size(), host.size() - 1), host.data());
}

std::string Hello::host_name() const {
  std::string name;
  for (const char c : host) {
    if (c == 0) break;
    name += c > ' ' && c < 127 ? c : '?';  // it is printed, and read between blanks
  }
  return name.empty() ? "?" : name;
}

std::optional<Door::Guest> Door::next(int milliseconds) {
  const auto until = SteadyClock::now() + std::chrono::milliseconds(milliseconds);
  for (;;) {
    let_in();
    std::erase_if(pending_, [&](Pending& pending) { return !known_ && !listen_to(pending); });
    if (known_) {
      std::optional<Guest> guest = std::move(known_);
      known_.reset();
      return guest;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now());
    if (left.count() <= 0) return {};
    std::vector<pollfd> all{{listener_.descriptor(), POLLIN, 0}};
    for (const Pending& pending : pending_) all.push_back({pending.guest.socket.descriptor(), POLLIN, 0});
    if (::poll(all.data(), all.size(), int(left.count())) > 0 && all[0].revents) make_room(all);
  }
}

void Door::let_in() {
  while (pending_.size() < most_pending) {  // more wait in the listener's queue
    Pending pending;
    pending.guest.socket = accept_from(listener_, pending.guest.from);
    if (!pending.guest.socket) return;
    pending.until = SteadyClock::now() + most_patience;
    pending_.push_back(std::move(pending));
  }
}

void Door::make_room(const std::vector<pollfd>& all) {
  if (pending_.size() < most_pending) return;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (all[i + 1].revents) continue;  // has just spoken
    refuse(pending_[i]);
    pending_.erase(pending_.begin() + std::ptrdiff_t(i));
    return;
  }
}

bool Door::listen_to(Pending& pending) {
  auto* const bytes = reinterpret_cast<char*>(&pending.guest.hello);
  const std::int64_t got =
      pending.guest.socket.read(bytes + pending.read, std::int64_t(sizeof(Hello)) - pending.read);
  pending.read += std::max<std::int64_t>(got, 0);
  const Hello& hello = pending.guest.hello;
  const Hello want;
  const bool whole = pending.read == sizeof(Hello);
  const auto compared = std::size_t(std::min<std::int64_t>(pending.read, sizeof want.magic));
  const bool like_us = std::memcmp(hello.magic.data(), want.magic.data(), compared) == 0;
  if (whole && like_us && hello.token == token_) {
    known_ = std::move(pending.guest);
    return false;
  }
  const bool stays = got >= 0 && !whole && like_us && SteadyClock::now() < pending.until;
  if (!stays) refuse(pending);
  return stays;
}

void Door::refuse(const Pending& pending) {
  ++refused_;
  last_refused_ = pending.guest.from.text();
}

std::string Door::refused() const {
  if (refused_ == 0) return "";
  return fmt::format("; refused {} connection{} that {} not of this run, the last from {}", refused_,
                     refused_ == 1 ? "" : "s", refused_ == 1 ? "is" : "are", last_refused_);
}

}  // namespace mxtape
