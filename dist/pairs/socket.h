#pragma once
#include <cstdint>
#include <utility>

namespace mxtape {

/// One end of a connection that does not block, closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();
  /// What can be read or written now: bytes, 0 for none at the moment, -1 once the connection has ended.
  std::int64_t read(void* data, std::int64_t bytes) const;
  std::int64_t write(const void* data, std::int64_t bytes) const;

 private:
  int descriptor_ = -1;
};

/// Both ends of a new connection, for this process and those that it forks. Throws Error(resource).
std::pair<Socket, Socket> socket_pair();

}  // namespace mxtape
