#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace mxtape::test {

/// Messages between processes over sockets, one to each rank. Nothing blocks.
class Mail {
 public:
  /// By rank; -1: none, as to oneself.
  explicit Mail(std::vector<int> sockets) : boxes_(sockets.size()) {
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      boxes_[rank].socket = sockets[rank];
      if (sockets[rank] >= 0) ::fcntl(sockets[rank], F_SETFL, O_NONBLOCK);
    }
  }

  void post(int to, const void* data, std::size_t bytes) {
    const std::uint64_t length = bytes;
    Box& box = boxes_[std::size_t(to)];
    box.out.append(reinterpret_cast<const char*>(&length), sizeof length);
    box.out.append(static_cast<const char*>(data), bytes);
  }
  /// Moves what can be moved now.
  void pump() {
    for (Box& box : boxes_) {
      if (box.socket < 0) continue;
      while (!box.out.empty()) {
        const ssize_t sent = ::send(box.socket, box.out.data(), box.out.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) box.out.clear(), box.gone = true;
        if (sent <= 0) break;
        box.out.erase(0, std::size_t(sent));
      }
      char piece[1 << 16];
      for (ssize_t got = 0; (got = ::recv(box.socket, piece, sizeof piece, 0)) >= 0;) {
        if (got == 0) {
          box.gone = true;
          break;
        }
        box.in.append(piece, std::size_t(got));
      }
    }
  }
  /// The oldest message from a rank, once it is here as a whole.
  std::optional<std::string> take(int from) {
    Box& box = boxes_[std::size_t(from)];
    std::uint64_t length = 0;
    if (box.in.size() < sizeof length) return {};
    std::memcpy(&length, box.in.data(), sizeof length);
    if (box.in.size() < sizeof length + length) return {};
    std::string message = box.in.substr(sizeof length, length);
    box.in.erase(0, sizeof length + length);
    return message;
  }
  bool flushed() const {
    for (const Box& box : boxes_)
      if (!box.out.empty()) return false;
    return true;
  }
  bool gone(int rank) const { return boxes_[std::size_t(rank)].gone; }

 private:
  struct Box {
    int socket = -1;
    std::string out, in;
    bool gone = false;
  };
  std::vector<Box> boxes_;
};

}  // namespace mxtape::test
