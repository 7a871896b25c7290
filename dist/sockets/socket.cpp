#include "dist/sockets/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "dist/sockets/deadline.h"

namespace mxtape {
namespace {

constexpr int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

const sockaddr* raw(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.storage); }
sockaddr* raw(Address& address) { return reinterpret_cast<sockaddr*>(&address.storage); }

void set(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

/// Small messages leave at once: a step waits for each of them.
Socket without_delay(int descriptor) {
  if (descriptor >= 0) set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  return Socket(descriptor);
}

std::int64_t moved(ssize_t result) {
  if (result > 0) return result;
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  return -1;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.descriptor_;
    other.descriptor_ = -1;
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

std::int64_t Socket::read(void* data, std::int64_t bytes) const {
  return moved(::recv(descriptor_, data, std::size_t(bytes), 0));
}

std::int64_t Socket::write(const void* data, std::int64_t bytes) const {
  return moved(::send(descriptor_, data, std::size_t(bytes), MSG_NOSIGNAL));
}

std::int64_t Socket::write(std::string_view first, std::string_view second) const {
  std::array<iovec, 2> parts{iovec{const_cast<char*>(first.data()), first.size()},
                             iovec{const_cast<char*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return moved(::sendmsg(descriptor_, &message, MSG_NOSIGNAL));
}

Address Address::at(int port) const {
  Address other = *this;
  const auto number = htons(std::uint16_t(port));
  if (storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(other.storage).sin6_port = number;
  else
    reinterpret_cast<sockaddr_in&>(other.storage).sin_port = number;
  return other;
}

int Address::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    constexpr int first_of_four = 12;  // bytes before an IPv4 address that is written as one of IPv6
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[first_of_four] == 127);
  }
  return ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24 == 127;
}

std::string Address::text() const {
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(raw(*this), length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  const std::string all = host.data(), mapped = "::ffff:";
  return all.starts_with(mapped) && all.find('.') != std::string::npos ? all.substr(mapped.size()) : all;
}

std::vector<Address> resolve(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), "0", &hints, &found);
  require(error == 0, ExitCode::usage, "host '{}': {}; want a name or an address that this host knows", host,
          error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  std::vector<Address> all;
  for (const addrinfo* info = found; info; info = info->ai_next) {
    Address& address = all.emplace_back();
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return all;
}

Socket listen_at(const Address& address, int waiting) {
  Socket socket(::socket(address.storage.ss_family, kind, 0));
  if (!socket) return {};
  set(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) set(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.descriptor(), raw(address), address.length) != 0) return {};
  if (::listen(socket.descriptor(), waiting) != 0) return {};
  return socket;
}

Socket listen_anywhere(int port, int waiting) {
  for (const int family : {AF_INET6, AF_INET}) {
    Address any;  // zeros: every address
    any.storage.ss_family = sa_family_t(family);
    any.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (Socket socket = listen_at(any.at(port), waiting)) return socket;
  }
  return {};
}

Socket connect_to(const Address& address, double seconds) {
  Socket socket = without_delay(::socket(address.storage.ss_family, kind, 0));
  if (!socket) return {};
  if (::connect(socket.descriptor(), raw(address), address.length) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  pollfd ready{socket.descriptor(), POLLOUT, 0};
  int error = 0, found = 0;
  socklen_t size = sizeof error;
  const Deadline end(seconds);
  do  // a signal that has a handler ends poll(), and no connection
    found = ::poll(&ready, 1, int(std::max(end.left(), 0.) * 1000));
  while (found < 0 && errno == EINTR);
  if (found != 1 || ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
    return {};
  return socket;
}

Socket accept_from(const Socket& listener, Address& from) {
  from = {};
  return without_delay(
      ::accept4(listener.descriptor(), raw(from), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Address own_address(const Socket& socket) {
  Address address;
  ::getsockname(socket.descriptor(), raw(address), &address.length);
  return address;
}

Address peer_address(const Socket& socket) {
  Address address;
  ::getpeername(socket.descriptor(), raw(address), &address.length);
  return address;
}

}  // namespace mxtape
