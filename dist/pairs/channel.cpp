#include "dist/pairs/channel.h"

#include <array>
#include <cstring>

namespace mxtape {
namespace {

struct Head {
  std::uint64_t kind, bytes;
};

}  // namespace

void Channel::send(Kind kind, std::string_view text) {
  const Head head{std::uint64_t(kind), text.size()};
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
  std::int64_t bytes = 0;
  while ((bytes = socket_.read(piece.data(), std::int64_t(piece.size()))) > 0)
    in_.append(piece.data(), std::size_t(bytes));
  if (bytes < 0) socket_.close();
  for (Head head; in_.size() >= sizeof head;) {
    std::memcpy(&head, in_.data(), sizeof head);
    if (in_.size() - sizeof head < head.bytes) return;
    messages.push_back({Kind(head.kind), in_.substr(sizeof head, head.bytes)});
    in_.erase(0, sizeof head + head.bytes);
  }
}

}  // namespace mxtape
