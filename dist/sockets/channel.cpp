#include "dist/sockets/channel.h"

#include <array>
#include <cstring>

#include "core/error.h"

namespace mxtape {
namespace {

struct Head {
  std::uint32_t kind, bytes;
};

}  // namespace

void Channel::send(Kind kind, std::string_view text) {
  require(std::int64_t(text.size()) <= most_bytes, "a message of {} bytes; want at most {}", text.size(),
          most_bytes);
  const Head head{std::uint32_t(kind), std::uint32_t(text.size())};
  if (!sends()) out_.clear(), sent_ = 0;
  out_.append(reinterpret_cast<const char*>(&head), sizeof head);
  out_.append(text);
}

void Channel::serve() {
  if (!socket_) return;
  while (sends()) {
    const std::int64_t bytes = socket_.write(out_.data() + sent_, std::int64_t(out_.size() - sent_));
    if (bytes <= 0) break;  // what has come before the end is read below
    sent_ += std::size_t(bytes);
  }
  std::array<char, 1 << 14> piece;
  for (;;) {
    const std::int64_t bytes = socket_.read(piece.data(), std::int64_t(piece.size()));
    if (bytes == 0) return;
    if (bytes < 0) return socket_.close();
    in_.append(piece.data(), std::size_t(bytes));
    take_messages();
    if (!socket_) return;
  }
}

void Channel::take_messages() {
  for (Head head; in_.size() >= sizeof head;) {
    std::memcpy(&head, in_.data(), sizeof head);
    const bool known = head.kind >= std::uint32_t(Kind::welcome) && head.kind <= std::uint32_t(Kind::waits);
    if (!known || head.bytes > most_bytes || messages.size() >= most_messages) return socket_.close();
    if (in_.size() < sizeof head + head.bytes) return;
    messages.push_back({Kind(head.kind), in_.substr(sizeof head, head.bytes)});
    in_.erase(0, sizeof head + head.bytes);
  }
}

void Channel::end_sending() {
  if (socket_) ::shutdown(socket_.descriptor(), SHUT_WR);
}

}  // namespace mxtape
