#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "dist/pairs/socket.h"

namespace mxtape {

/// Messages over one connection, whole and in order.
class Channel {
 public:
  enum class Kind : std::uint64_t {
    text,        ///< of Group::all_gather
    last_words,  ///< the sender has to end: an exit code, and why
    waits,       ///< the sender has waited for long itself: it is not to blame
  };
  struct Message {
    Kind kind;
    std::string text;
  };

  Channel() = default;
  explicit Channel(Socket socket) : socket_(std::move(socket)) {}

  const Socket& socket() const { return socket_; }
  void send(Kind, std::string_view text);
  /// Writes and reads what can be now. Where the connection has ended it is closed.
  void serve();
  bool sends() const { return sent_ < out_.size(); }
  bool is_open() const { return bool(socket_); }

  std::deque<Message> messages{};  ///< that have come

 private:
  Socket socket_;
  std::string in_, out_;
  std::size_t sent_ = 0;  // of out_
};

}  // namespace mxtape
