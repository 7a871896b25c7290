#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "core/files/descriptor.h"

namespace mxtape {

/// One end of a connection that does not block, closed with its owner.
class Socket final : public Descriptor {
 public:
  using Descriptor::Descriptor;
  /// What can be read or written now: bytes, 0 for none at the moment, -1 once the connection has ended.
  std::int64_t read(void* data, std::int64_t bytes) const;
  std::int64_t write(const void* data, std::int64_t bytes) const;
};

/// Both ends of a new connection, for this process and those that it forks. Throws Error(resource).
std::pair<Socket, Socket> socket_pair();

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
