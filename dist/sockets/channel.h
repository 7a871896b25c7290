#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "dist/sockets/socket.h"

namespace mxtape {

/// Messages over one connection, whole and in order.
class Channel {
 public:
  enum class Kind : std::uint32_t {
    welcome = 1,  ///< rank 0 knows the run
    table,        ///< who is where
    text,         ///< of Group::all_gather
    last_words,   ///< the sender ends, and says why: an exit code
    waits,        ///< the sender has waited for long itself: it is not to blame
  };
  struct Message {
    Kind kind;
    std::string text;
  };
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 26;  ///< of a message
  static constexpr std::size_t most_messages = 8;                    ///< that nobody has taken yet

  Channel() = default;
  explicit Channel(Socket socket) : socket_(std::move(socket)) {}

  const Socket& socket() const { return socket_; }
  void send(Kind, std::string_view text);
  /// Writes and reads what can be now. Where the connection ends, or what comes is no message, it is closed.
  void serve();
  bool sends() const { return sent_ < out_.size(); }
  bool is_open() const { return bool(socket_); }
  /// Nothing more is sent: the other end reads what there is, and then the end.
  void end_sending();

  std::deque<Message> messages{};  ///< that have come

 private:
  void take_messages();

  Socket socket_;
  std::string in_, out_;
  std::size_t sent_ = 0;  // of out_
};

}  // namespace mxtape
