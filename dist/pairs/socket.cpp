#include "dist/pairs/socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace mxtape {
namespace {

std::int64_t moved(ssize_t result) {
  if (result > 0) return result;
  constexpr int later[] = {EAGAIN, EINTR, ENOBUFS, ENOMEM};  // the last two: the kernel is short of memory
  if (result < 0 && std::ranges::count(later, errno) > 0) return 0;
  return -1;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::int64_t Socket::read(void* data, std::int64_t bytes) const {
  return moved(::recv(descriptor_, data, std::size_t(bytes), 0));
}

std::int64_t Socket::write(const void* data, std::int64_t bytes) const {
  return moved(::send(descriptor_, data, std::size_t(bytes), MSG_NOSIGNAL));
}

std::pair<Socket, Socket> socket_pair() {
  std::array<int, 2> ends{};
  const int result = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data());
  require(result == 0, ExitCode::resource, "a connection between two processes: {}{}", std::strerror(errno),
          errno == EMFILE ? "; want a higher `ulimit -n`" : "");
  return {Socket(ends[0]), Socket(ends[1])};
}

}  // namespace mxtape
