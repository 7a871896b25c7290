#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// A TCP connection or listener that does not block, closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();
  /// What can be read or written now: bytes, 0 for none at the moment, -1 once the connection has ended.
  std::int64_t read(void* data, std::int64_t bytes) const;
  std::int64_t write(const void* data, std::int64_t bytes) const;
  /// The first and then the second, in one packet if they are small.
  std::int64_t write(std::string_view first, std::string_view second) const;

 private:
  int descriptor_ = -1;
};

/// An IPv4 or IPv6 address with a port.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  Address at(int port) const;
  int port() const;
  bool is_loopback() const;
  std::string text() const;  ///< without the port: "192.168.0.1", "fe80::1%eth0"
};

/// All addresses of a host, in the order of the system's preference; "" is this host's loopback. Throws
/// Error(usage) for a name that nobody knows.
std::vector<Address> resolve(const std::string& host);

/// A listener, or an empty socket if the port is taken or the host has no such address. Port 0: any.
Socket listen_at(const Address&, int waiting);
/// On all addresses of this host, IPv6 and IPv4 where it has both.
Socket listen_anywhere(int port, int waiting);
/// A connection, or an empty socket after that long.
Socket connect_to(const Address&, double seconds);
/// A connection that has come, with the address of the other end, or an empty socket if none has.
Socket accept_from(const Socket& listener, Address& from);

Address own_address(const Socket&);
Address peer_address(const Socket&);

}  // namespace mxtape
